// Prints the schema of a database in one order, so that two can be compared letter by letter.
// Run it as `node scripts/print-catalog.js postgres://… > catalog.txt`.
import { fileURLToPath } from 'node:url'
import pg from 'pg'

/** Sorted, since PostgreSQL keeps rights in the order of grants. */
const rightsIn = (list) => `(${selectRights} from aclexplode(${list}))`

const selectRights = `select coalesce(string_agg(concat(privilege_type, case when is_grantable then ' with grant option' end,
  ' to ', case grantee when 0 then 'public' else grantee::regrole::text end), ', '
  order by grantee::regrole::text, privilege_type), 'by default')`

const ours = (schema) => `${schema}::regnamespace::text !~ '^(pg_|information_schema$)'`

/** The lines of each begin with the kind and the name of a thing. */
const questions = {
  schemas: `select format('schema %I: owner %s; rights %s', nspname, nspowner::regrole, ${rightsIn('nspacl')})
    from pg_namespace n where ${ours('n.oid')}`,
  relations: `select format('relation %s: kind %s; owner %s; options %s; kept %s; replica identity %s; policies %s %s; rights %s',
      oid::regclass, relkind, relowner::regrole, reloptions, relpersistence, relreplident, relrowsecurity, relforcerowsecurity,
      ${rightsIn('relacl')})
    from pg_class where ${ours('relnamespace')} and relkind not in ('i', 'I', 't')`,
  columns: `select format('column %s.%I: place %s; type %s; collation %s; not null %s; default %s; identity %s; generated %s; '
      'storage %s %s; statistics %s; options %s; rights %s',
      attrelid::regclass, attname, attnum, format_type(atttypid, atttypmod), attcollation::regcollation, attnotnull,
      pg_get_expr(adbin, adrelid), attidentity, attgenerated, attstorage, attcompression, attstattarget, attoptions,
      ${rightsIn('attacl')})
    from pg_attribute join pg_class c on c.oid = attrelid left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where ${ours('relnamespace')} and relkind not in ('i', 'I', 't', 'S') and attnum > 0`,
  constraints: `select format('constraint %I of %s: %s; validated %s', conname, conrelid::regclass, pg_get_constraintdef(oid),
      convalidated)
    from pg_constraint where ${ours('connamespace')}`,
  indexes: `select format('index %s: %s; valid %s; clustered %s; replica identity %s', indexrelid::regclass,
      pg_get_indexdef(indexrelid), indisvalid, indisclustered, indisreplident)
    from pg_index join pg_class c on c.oid = indexrelid where ${ours('relnamespace')}`,
  sequences: `select format('sequence %s: %s from %s by %s, %s to %s; cache %s; cycle %s; owned by %s (%s)', seqrelid::regclass,
      format_type(seqtypid, null), seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle,
      (select string_agg(concat(refobjid::regclass, '.', attname), ', ') from pg_attribute
        where attrelid = refobjid and attnum = refobjsubid), deptype)
    from pg_sequence join pg_class c on c.oid = seqrelid
    left join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = seqrelid and d.deptype in ('a', 'i')
    where ${ours('relnamespace')}`,
  views: `select format(E'view %s:\\n%s', oid::regclass, pg_get_viewdef(oid))
    from pg_class where ${ours('relnamespace')} and relkind in ('v', 'm')`,
  rules: `select format('rule %I of %s: %s', rulename, ev_class::regclass, pg_get_ruledef(r.oid))
    from pg_rewrite r join pg_class c on c.oid = ev_class where ${ours('relnamespace')} and rulename <> '_RETURN'`,
  functions: `select format(E'function %s: owner %s; rights %s\\n%s', oid::regprocedure, proowner::regrole,
      ${rightsIn('proacl')}, pg_get_functiondef(oid))
    from pg_proc where ${ours('pronamespace')} and prokind in ('f', 'p', 'w')`,
  triggers: `select format('trigger %I of %s: %s; enabled %s', tgname, tgrelid::regclass, pg_get_triggerdef(t.oid), tgenabled)
    from pg_trigger t join pg_class c on c.oid = tgrelid where ${ours('relnamespace')} and not tgisinternal`,
  types: `select format('type %s: kind %s; owner %s; rights %s', oid::regtype, typtype, typowner::regrole, ${rightsIn('typacl')})
    from pg_type where ${ours('typnamespace')} and typtype in ('c', 'd', 'e', 'r', 'm')`,
  policies: `select format('policy %I of %s: %s for %s; using %s; check %s', polname, polrelid::regclass, polpermissive, polcmd,
      pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) from pg_policy`,
  comments: `select format('comment on %s %s: %s', type, identity, description)
    from pg_description, pg_identify_object(classoid, objoid, objsubid) where ${ours("coalesce(schema, 'pg_catalog')::text")}`,
  defaults: `select format('default rights of %s in %s on %s: %s', defaclrole::regrole,
      case defaclnamespace when 0 then 'all' else defaclnamespace::regnamespace::text end, defaclobjtype, ${rightsIn('defaclacl')})
    from pg_default_acl`,
  extensions: `select format('extension %I: %s', extname, extversion) from pg_extension`,
  statistics: `select format('statistics %s', pg_get_statisticsobjdef(oid)) from pg_statistic_ext`,
}

/** The ledger tells how a schema came to be, and may differ where schemas are equal. */
const isOfLedger = (entry) => /^[^\n]*\bsallyport_migrations(_pkey)?\b/.test(entry)

export async function printCatalog(client) {
  // With no schema in the path, each name has its schema in front.
  const { rows: paths } = await client.query("select set_config('search_path', '', false)")
  if (paths.length !== 1) throw new Error('the search path can not be set')
  const lines = []
  for (const [part, text] of Object.entries(questions)) {
    const { rows } = await client.query({ text, rowMode: 'array' }).catch((cause) => {
      throw new Error(`${part} can not be read: ${cause.message}`, { cause })
    })
    lines.push(
      ...rows
        .flat()
        .filter((entry) => !isOfLedger(entry))
        .sort(),
    )
  }
  await client.query('reset search_path')
  return `${lines.join('\n')}\n`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const client = new pg.Client({ connectionString: process.argv[2] })
  await client.connect()
  process.stdout.write(await printCatalog(client))
  await client.end()
}
