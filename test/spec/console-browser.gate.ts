import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { Browser, Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { openPage, startChromium, testChromium, type WatchedPage } from '../support/chromium.ts'
import { call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { freezePostgres } from '../support/freeze-postgres.ts'
import { startTestGateway } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { prepareLogouts, push } from '../support/logout-fixture.ts'
import { oauth, startTestWorld, type TestWorld } from '../support/world.ts'
import { type ConsoleFixture, startConsoleFixture } from './console-fixture.ts'

/** `WRITE_SCREENSHOTS=1` takes the pictures of the documentation anew. */
const writesScreenshots = process.env.WRITE_SCREENSHOTS === '1'
const pictures = fileURLToPath(new URL('../../docs/guides/', import.meta.url))

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

type AxeFindings = Readonly<{
  violations: readonly Readonly<{ id: string; nodes: readonly Readonly<{ html: string }>[] }>[]
}>

/** The console needs no more than this after an incident has begun. */
const incidentLimit = { timeout: 15_000 }

const asked = '/?method=DELETE&path=%2Fdatasets%2F5&credential=oauth&role=org-member'

const whoMay = '/console/who-may?method=GET&path=%2Fdatasets%2F5&organization=1'

/** No error in the browser, and no request except to the console. */
function checkQuiet(t: Test, { complaints, origins }: WatchedPage, expected: readonly string[]): void {
  t.same(complaints, [], 'no error, and nothing that the content security policy forbids')
  t.same(origins(), expected)
}

const visibleRows = (page: Page) => page.locator('#matrix-table tbody tr:visible')

const textOf = async (place: Locator): Promise<string> => (await place.textContent()) ?? ''

const refusalRows = (page: Page) => page.locator('#requests-table tbody tr')

testChromium(t, 'in a browser', async (t) => {
  const world = await startTestWorld(t, { hasOwnServer: true })
  const browser = await startChromium(t)
  const fixture = await startConsoleFixture(t, world)
  const { admin } = fixture.gateway
  await fixture.callAround()
  if (writesScreenshots) return takePictures(t, browser, fixture, world)

  await t.test('the page works, and sends requests only to its listener', async (t) => {
    const watched = await openPage(browser, `${admin}/`)
    const { page } = watched
    t.equal(await page.title(), 'Sallyport console')
    await page.getByText('Live, every 2 s').waitFor()
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('refusals and counts appear by themselves, and stand still while paused', async (t) => {
    const watched = await openPage(browser, `${admin}/`)
    const { page } = watched
    const path = (name: string) => page.locator('#requests-table').getByText(`/${name}`, { exact: true })
    await call(fixture.gateway.public, { path: '/appears' })
    await path('appears').waitFor()
    await page.locator('#tiles').getByText('over the last minute').waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await call(fixture.gateway.public, { path: '/waits' })
    const answered = await page.waitForResponse(/console\/live/, { timeout: 3_000 }).catch(() => undefined)
    t.equal(answered, undefined, 'nothing is asked for')
    t.equal(await path('waits').count(), 0)
    await page.getByRole('button', { name: 'Resume' }).click()
    await path('waits').waitFor()
    const first = await textOf(refusalRows(page).first())
    for (const part of ['404', 'route_not_found', 'GET', '/waits', '127.0.0.1']) t.match(first, part)
    t.notMatch(await page.content(), /token=secret|eyJ|oat_|alert\(1\)/)
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('the WebSocket of a page is closed with 1008 when its user has signed out', async (t) => {
    const { issuer, addSubject, signLogout, settings } = await prepareLogouts(t, world)
    const upstream = await startEndlessUpstream(t)
    const site = await startHttpUpstream(t, (_, response) => {
      response.setHeader('content-type', 'text/html')
      response.end('<!doctype html><title>A page</title>')
    })
    const gateway = await startTestGateway(t, {
      ...{ world, upstreams: { platform: { url: upstream.url } } },
      settings: {
        ...settings,
        issuers: settings.issuers.map((one) => ({ ...one, tokens: { subprotocol: true } })),
        cors: { origins: [site.url] },
      },
    })
    const subjects = [await addSubject(), await addSubject()] as const
    const jwts = await Promise.all(subjects.map((sub) => issuer.sign({ sub })))
    const { page } = await openPage(browser, site.url)
    await page.evaluate(`Promise.all(${JSON.stringify(jwts)}.map((jwt, index) => new Promise((resolve, reject) => {
      const socket = new WebSocket('${gateway.public.replace('http', 'ws')}/socket', ['chat', 'bearer.jwt.' + jwt])
      const ended = new Promise((end) => { socket.onclose = ({ code }) => end(code) })
      const hear = () => new Promise((heard) => { socket.onmessage = () => heard(true) })
      socket.onerror = () => reject(new Error('refused'))
      window['socket' + index] = { ended, hear, socket }
      hear().then(resolve)
    }))).then(() => true)`)
    t.equal((await push(gateway, await signLogout({ sub: subjects[0] }))).status, 200)
    t.equal(await page.evaluate('socket0.ended'), 1008)
    t.ok(await page.evaluate('socket1.hear()'), 'that of another user goes on')
    await page.context().close()
  })

  await t.test('a selection stays until it is copied', async (t) => {
    const { page } = await openPage(browser, `${admin}/`)
    await page.evaluate(`getSelection().selectAllChildren(document.querySelector('#requests-table td code'))`)
    const selected = await page.evaluate('String(getSelection())')
    await call(fixture.gateway.public, { path: '/meanwhile' })
    for (let look = 0; look < 2; look++) await page.waitForResponse(/console\/live/)
    t.equal(await page.evaluate('String(getSelection())'), selected)
    t.not(selected, '')
    await page.evaluate('getSelection().removeAllRanges()')
    await page.locator('#requests-table').getByText('/meanwhile', { exact: true }).waitFor()
    await page.context().close()
  })

  await t.test('the search shows matching routes while typing', async (t) => {
    const watched = await openPage(browser, `${admin}/`)
    const { page } = watched
    const search = page.getByRole('searchbox', { name: 'Search routes' })
    const all = await visibleRows(page).count()
    await search.fill('datasets.change')
    t.match(await visibleRows(page).allInnerTexts(), [/DELETE \/objects\/datasets\/:id/, /DELETE \/datasets\/:id/])
    t.equal(await textOf(page.locator('#matches')), `2 of ${all} routes`)
    await search.fill('no such route')
    t.equal(await visibleRows(page).count(), 0)
    await search.fill('')
    t.equal(await visibleRows(page).count(), all)
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('a question is asked and answered by the keyboard alone', async (t) => {
    const watched = await openPage(browser, `${admin}/`)
    const { page } = watched
    const focused = () => page.evaluate('document.activeElement.name || document.activeElement.textContent')
    await page.keyboard.press('Tab')
    t.equal(await focused(), 'Skip to the content')
    t.ok(await page.getByText('Skip to the content').isVisible())
    for (let presses = 0; presses < 100 && (await focused()) !== 'method'; presses++) await page.keyboard.press('Tab')
    t.equal(await focused(), 'method')
    await page.keyboard.type('DEL')
    await page.keyboard.press('Tab')
    await page.keyboard.type('/datasets/5')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Tab')
    await page.keyboard.type('org-m')
    await page.keyboard.press('Tab')
    const outline = await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
    t.equal(outline, 'solid', 'the focus is visible')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Shift+Tab')
    await page.keyboard.press('Enter')
    await page.locator('#verdict').waitFor()
    t.match(await textOf(page.locator('#verdict')), /refused: 403 role_insufficient, by route datasets\.change/)
    t.match(page.url(), /method=DELETE&path=%2Fdatasets%2F5.*role=org-member.*#explain$/)
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('without JavaScript there are all tables, answers and the search', async (t) => {
    const watched = await openPage(browser, `${admin}${asked}`, { javaScriptEnabled: false })
    const { page } = watched
    t.match(await textOf(page.locator('#verdict')), /role_insufficient/)
    t.ok((await visibleRows(page).count()) > 20)
    t.ok((await refusalRows(page).count()) > 5)
    for (const id of ['parts', 'upstreams', 'issuers', 'caches', 'sources', 'connections', 'clusters', 'differences'])
      t.ok(await page.locator(`#${id}`).isVisible(), id)
    t.notOk(await page.locator('#pause').isVisible(), 'a control that needs JavaScript is hidden')
    await page.getByRole('searchbox').fill('users/me')
    await page.getByRole('button', { name: 'Search' }).click()
    t.match(await textOf(page.locator('#matches')), /^\d of \d+ routes$/)
    t.ok((await visibleRows(page).allInnerTexts()).every((text) => text.includes('/users/me')))
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('a refused request leads to its explanation', async (t) => {
    const { page } = await openPage(browser, `${admin}/`, { javaScriptEnabled: false })
    await page.locator('#requests-table').getByRole('link', { name: '/datasets/7' }).first().click()
    t.match(await textOf(page.locator('#verdict')), /by route datasets\.change/)
    await page.context().close()
  })

  await t.test('members who may send a request are asked for in a form, and told without JavaScript', async (t) => {
    const watched = await openPage(browser, `${admin}/`, { javaScriptEnabled: false })
    const { page } = watched
    await page.getByRole('link', { name: 'Who may' }).click()
    await page.getByLabel('Path and query').fill('/datasets/5')
    await page.getByLabel('Organization').fill(String(world.organizations.acme.id))
    await page.getByRole('button', { name: 'List' }).click()
    const rows = await page.locator('#who-may-table tbody tr').allInnerTexts()
    t.ok(
      rows.some((row) => row.startsWith(`${world.users.member.id}\torg-member\thuman`)),
      rows.join(),
    )
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('dark and light differ', async (t) => {
    const grounds = new Set<unknown>()
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await openPage(browser, `${admin}/console/runbook`, { colorScheme })
      grounds.add(await page.evaluate('getComputedStyle(document.body).backgroundColor'))
      await page.context().close()
    }
    t.equal(grounds.size, 2)
  })

  await t.test('axe finds no violation, and a phone scrolls only tables sideways', async (t) => {
    const looks = [
      { path: asked, width: 1_280, colorScheme: 'light' },
      { path: asked, width: 390, colorScheme: 'dark' },
      { path: '/?range=60&kind=refusal', width: 390, colorScheme: 'light' },
      { path: '/console/runbook', width: 390, colorScheme: 'dark' },
      { path: whoMay, width: 1_280, colorScheme: 'dark' },
      { path: whoMay, width: 390, colorScheme: 'light' },
    ] as const
    for (const { path, width, colorScheme } of looks) {
      const { page } = await openPage(browser, `${admin}${path}`, { colorScheme, viewport: { width, height: 844 } })
      await page.evaluate(axe)
      const { violations } = await page.evaluate<AxeFindings>('axe.run()')
      const found = violations.map(({ id, nodes }) => [id, nodes.length, nodes[0]?.html.slice(0, 200)])
      t.same(found, [], `${path} at ${width} px, ${colorScheme}`)
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, path)
      await page.context().close()
    }
  })

  await t.test('a broken policy is told with its place, and the old one goes on', async (t) => {
    const watched = await openPage(browser, `${admin}/`)
    const { page } = watched
    await page.getByText('All is well.').waitFor()
    fixture.edit('platform.yaml', (text) => `${text}\n  - { id: <b>bad</b> }\n`)
    await page.getByText('The files cannot be loaded. The last good ones stay in force.').waitFor()
    t.match(await textOf(page.locator('#policy-state pre')), /platform\.yaml:\d+:\d+: routes\.\d+/)
    t.match(await textOf(page.locator('#problems')), /policy files: refused/)
    t.ok((await visibleRows(page).count()) > 20, 'the table in force')
    const { status } = await call(fixture.gateway.public, { path: '/datasets' })
    t.equal(status, 401, 'and it decides')
    fixture.edit('platform.yaml', (text) => text.replace('\n  - { id: <b>bad</b> }\n', ''))
    await page.getByText('All is well.').waitFor()
    checkQuiet(t, watched, [admin])
    await page.context().close()
  })

  await t.test('the page says that the gateway does not answer', async () => {
    const { page } = await openPage(browser, `${admin}/`)
    await page.route(/console\/live/, (route) => route.abort())
    await page.getByText('The gateway does not answer').waitFor()
    await page.unroute(/console\/live/)
    await page.getByText('Live, every 2 s').waitFor()
    await page.context().close()
  })

  await t.test('the matrix as a file can be searched, and sends no request', async (t) => {
    const { stdout } = await runCommand(['policy', 'matrix', '--policies', fixture.policies, '--format', 'html'])
    const file = `${t.testdir({})}/matrix.html`
    writeFileSync(file, stdout)
    const watched = await openPage(browser, `file://${file}`)
    const { page } = watched
    await page.getByRole('searchbox', { name: 'Search routes' }).fill('datasets')
    const texts = await visibleRows(page).allInnerTexts()
    t.ok(texts.length > 1 && texts.every((text) => text.includes('datasets')))
    checkQuiet(t, watched, ['null'])
    await page.context().close()
  })

  await t.test('an open page names a cluster that cannot be reached', async (t) => {
    const { page } = await openPage(browser, `${admin}/`)
    await page.getByText('All is well.').waitFor()
    const { unreachable } = world.clusters
    for (let calls = 0; calls < 5; calls++)
      await call(fixture.gateway.public, {
        path: `/clusters/${unreachable}/proxy/x`,
        headers: oauth(world.users.member),
      })
    await page.locator('#problems').getByText(`cluster ${unreachable}`).waitFor(incidentLimit)
    t.match(await textOf(page.locator('#problems')), /\(unreachable\): 5 × not reached/)
    await page.context().close()
  })

  await t.test('an open page names a database that does not answer, and its recovery', async (t) => {
    const { page } = await openPage(browser, `${admin}/`)
    const { postgres } = world.pids
    if (postgres === undefined) throw new Error('the database has no process')
    const thaw = freezePostgres(postgres)
    t.teardown(thaw)
    await page.locator('#problems').getByText('database').waitFor(incidentLimit)
    t.match(await textOf(page.locator('#problems')), /database: failing/)
    thaw()
    await page
      .locator('#problems')
      .getByText('database')
      .waitFor({ ...incidentLimit, state: 'detached' })
    await page.context().close()
  })
})

async function takePictures(
  t: Test,
  browser: Browser,
  { gateway, callAround }: ConsoleFixture,
  { users }: TestWorld,
): Promise<void> {
  const views = [
    { colorScheme: 'light', part: '#overview', height: 1_080, path: '/?range=5', rounds: 30 },
    { colorScheme: 'dark', part: '#explain', height: 980, path: asked, rounds: 1 },
  ] as const
  for (const { colorScheme, part, height, path, rounds } of views) {
    const { page } = await openPage(browser, `${gateway.admin}${path}`, {
      colorScheme,
      viewport: { width: 1_360, height },
    })
    for (let round = 0; round < rounds; round++) {
      if (round % 3 === 0) await callAround()
      for (let calls = 0; calls < 25 + 15 * Math.sin(round / 4); calls++)
        await call(gateway.public, { path: '/datasets', headers: oauth(users.owner) })
      await page.waitForResponse(/console\/live/)
    }
    await page.evaluate(`document.querySelector('${part}').scrollIntoView({ behavior: 'instant' })`)
    if (part === '#overview') await page.evaluate('scrollTo({ top: 0, behavior: "instant" })')
    const image = await page.screenshot({ path: `${pictures}console-${colorScheme}.png` })
    t.ok(image.length < 300_000, `${image.length} bytes`)
    await page.context().close()
  }
}
