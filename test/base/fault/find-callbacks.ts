import ts from 'typescript'

/** A callback that nothing catches for: where it is registered. */
export type BareCallback = Readonly<{ file: string; line: number; text: string }>

/** Functions that take a callback for the event loop to call. */
const timers = new Set(['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask'])
const registrations = new Set([
  'on',
  'once',
  'addListener',
  'prependListener',
  'prependOnceListener',
  'addEventListener',
  'nextTick',
  'setTimeout',
])

/** Members of an options object that are called back. */
const options = new Set(['callback'])

const guards = new Set(['guarded', 'guardedListener'])

/** Calls that throw nothing: of node, the two of a promise, and one that pushes to an array. */
const harmless = new Set(['resolve', 'reject', 'clearTimeout', 'destroy', 'abort', 'exit', 'kill', 'recycle'])

/** The registrations in a source whose callback is neither guarded nor evidently harmless. */
export function findBareCallbacks(file: string, source: string): readonly BareCallback[] {
  const root = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  const found: BareCallback[] = []
  const visit = (node: ts.Node): void => {
    for (const callback of callbacksOf(node)) {
      if (isSafe(callback, root)) continue
      const { line } = root.getLineAndCharacterOfPosition(callback.getStart(root))
      found.push({ file, line: line + 1, text: node.getText(root).slice(0, 100) })
    }
    ts.forEachChild(node, visit)
  }
  visit(root)
  return found
}

/** The callbacks that a node of the tree registers with the event loop. */
function callbacksOf(node: ts.Node): readonly ts.Expression[] {
  if (ts.isPropertyAssignment(node) && ts.isIdentifier(node.name) && options.has(node.name.text))
    return isFunction(node.initializer) ? [node.initializer] : []
  if (!ts.isCallExpression(node)) return []
  const { expression, arguments: given } = node
  if (ts.isIdentifier(expression) && timers.has(expression.text)) return given.slice(0, 1)
  if (!ts.isPropertyAccessExpression(expression)) return []
  const name = expression.name.text
  if (name === 'nextTick') return given.slice(0, 1)
  if (registrations.has(name)) return given.slice(1, 2)
  // These methods of a socket or a server call back when they are done. A method of the gateway is looked at by itself.
  if (expression.expression.kind === ts.SyntaxKind.ThisKeyword) return []
  return ['end', 'write', 'listen', 'close', 'connect'].includes(name) ? given.filter(isFunction) : []
}

const isFunction = (node: ts.Node): node is ts.ArrowFunction | ts.FunctionExpression =>
  ts.isArrowFunction(node) || ts.isFunctionExpression(node)

function isSafe(node: ts.Expression, root: ts.SourceFile): boolean {
  if (isGuard(node)) return true
  if (isFunction(node)) return isSafeBody(node.body)
  if (ts.isPropertyAccessExpression(node)) return isSafeMember(node.name.text, root)
  if (!ts.isIdentifier(node)) return false
  return harmless.has(node.text) || node.text === 'ignore' || isSafeName(node.text, root)
}

const isGuard = (node: ts.Node): boolean =>
  ts.isCallExpression(node) && ts.isIdentifier(node.expression) && guards.has(node.expression.text)

/** Nothing, or harmless calls alone, or a `try` around everything that tells of what it caught. */
function isSafeBody(body: ts.ConciseBody): boolean {
  if (!ts.isBlock(body)) return isSafeExpression(body)
  return body.statements.every((statement) => {
    if (ts.isExpressionStatement(statement)) return isSafeExpression(statement.expression)
    return ts.isTryStatement(statement) && /\b(?:reportFault|onFault)\(/.test(statement.catchClause?.getText() ?? '')
  })
}

function isSafeExpression(node: ts.Expression): boolean {
  if (ts.isVoidExpression(node) || ts.isParenthesizedExpression(node)) return isSafeExpression(node.expression)
  if (ts.isIdentifier(node) || ts.isLiteralExpression(node)) return true
  if (ts.isConditionalExpression(node)) return isSafeExpression(node.whenTrue) && isSafeExpression(node.whenFalse)
  if (!ts.isCallExpression(node)) return false
  const { expression, arguments: given } = node
  const name = ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText()
  const isKnown = harmless.has(name) || name === 'reportFault'
  return isKnown && given.every((one) => !ts.isCallExpression(one) || harmless.has(one.expression.getText()))
}

/** A constant of the file that is guarded, or safe by itself. */
function isSafeName(name: string, root: ts.SourceFile): boolean {
  let isFound = false
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === name && node.initializer)
      isFound ||= isGuard(node.initializer) || (isFunction(node.initializer) && isSafeBody(node.initializer.body))
    ts.forEachChild(node, visit)
  }
  visit(root)
  return isFound
}

/** A field of a class of the file that is guarded. */
function isSafeMember(name: string, root: ts.SourceFile): boolean {
  let isFound = false
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyDeclaration(node) && node.name.getText() === name && node.initializer)
      isFound ||= isGuard(node.initializer)
    ts.forEachChild(node, visit)
  }
  visit(root)
  return isFound
}
