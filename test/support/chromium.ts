import { existsSync } from 'node:fs'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import type { Test } from 'tap'
import { testUnlessLacking } from './lacks.ts'
import type { Owner } from './owner.ts'

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium'

/** A page, and what its browser did on its behalf. */
export type WatchedPage = Readonly<{
  page: Page
  /** Errors and warnings of its console, refusals of its content security policy among them. */
  complaints: readonly string[]
  /** The origins of all that was asked for. */
  origins: () => readonly string[]
}>

/** No requests but those of the pages under test. Chromium's sandbox does not run as root. */
const args = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Starts a Chromium that ends with its owner. */
export async function startChromium(owner: Owner): Promise<Browser> {
  const browser = await chromium.launch({ executablePath, args })
  owner.teardown(() => browser.close())
  return browser
}

/** Opens an address in a context of its own, and watches it from the first byte on. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const context: BrowserContext = await browser.newContext(options)
  const page = await context.newPage()
  const complaints: string[] = []
  const origins = new Set<string>()
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith('data:')) origins.add(new URL(request.url()).origin)
  })
  await page.goto(url)
  return { page, complaints, origins: () => [...origins] }
}

/** A test, or a block of them, that calls `startChromium`. Without Chromium it is skipped; `REQUIRE_ALL=1` forbids it. */
export const testChromium = (t: Test, name: string, run: (t: Test) => Promise<unknown>): void =>
  testUnlessLacking(t, name, run, existsSync(executablePath) ? undefined : `there is no ${executablePath}`)
