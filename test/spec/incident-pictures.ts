import { fileURLToPath } from 'node:url'
import { openPage, startChromium } from '../support/chromium.ts'
import type { Owner } from '../support/owner.ts'
import type { Serving } from '../support/serve.ts'

const folder = fileURLToPath(new URL('../../docs/guides', import.meta.url))

/** The two incidents that the guide of the console shows: one on a desktop, one on a telephone. */
const looks = {
  database: { width: 1_280, height: 345, colorScheme: 'light' },
  credentials: { width: 390, height: 560, colorScheme: 'dark' },
} as const

const limitBytes = 80_000

export type Camera = Readonly<{
  isOpen: boolean
  take: (serving: Serving, incident: keyof typeof looks) => Promise<void>
}>

/** `WRITE_SCREENSHOTS=1` takes the pictures of incidents anew; else the camera does nothing. */
export async function openCamera(owner: Owner): Promise<Camera> {
  if (process.env.WRITE_SCREENSHOTS !== '1') return { isOpen: false, take: async () => undefined }
  const browser = await startChromium(owner)
  const take: Camera['take'] = async ({ admin }, incident) => {
    const { width, height, colorScheme } = looks[incident]
    const { page } = await openPage(browser, `${admin}/`, { colorScheme, viewport: { width, height } })
    await page.getByText('Live, every 2 s').waitFor()
    const { length } = await page.screenshot({ path: `${folder}/console-${incident}.png` })
    if (length > limitBytes) throw new Error(`the picture of ${incident} has ${length} bytes`)
    await page.context().close()
  }
  return { isOpen: true, take }
}
