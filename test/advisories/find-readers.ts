import ts from 'typescript'
import { listSources, readSource } from '../support/sources.ts'

/** Calls by which a text is taken apart. */
const looks = new Set([
  ...['split', 'replace', 'replaceAll', 'matchAll', 'indexOf', 'lastIndexOf', 'search', 'exec'],
  ...['charCodeAt', 'codePointAt', 'normalize'],
])

const readingName = /^(?:read|parse|split|decode|skim)[A-Z]/

/** Modules of the gateway, by their path below `gateway/` or from the root, that take a text apart or export a function named as a reader. */
export const findReadingModules = (): readonly string[] =>
  listSources().filter((file) => takesTextApart(readSource(file)))

/** Whether a module has a regular expression, a `JSON.parse`, one of these calls, or exports a reader by its name. */
export function takesTextApart(source: string): boolean {
  let isFound = false
  const visit = (node: ts.Node): void => {
    isFound ||= isLook(node)
    if (!isFound) ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('module.ts', source, ts.ScriptTarget.Latest, true))
  return isFound
}

function isLook(node: ts.Node): boolean {
  if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) return true
  if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
    const { name, expression } = node.expression
    return looks.has(name.text) || (name.text === 'parse' && expression.getText() === 'JSON')
  }
  if (ts.isFunctionDeclaration(node)) return isExported(node) && readingName.test(node.name?.text ?? '')
  return (
    ts.isVariableStatement(node) &&
    isExported(node) &&
    node.declarationList.declarations.some(
      ({ name, initializer }) =>
        readingName.test(name.getText()) && initializer !== undefined && ts.isArrowFunction(initializer),
    )
  )
}

const isExported = (node: ts.FunctionDeclaration | ts.VariableStatement): boolean =>
  node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false
