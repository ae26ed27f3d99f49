import { fileURLToPath } from 'node:url'
import { openPage, startChromium } from './chromium.ts'
import type { Owner } from './owner.ts'
import type { Serving } from './serve.ts'

const folder = fileURLToPath(new URL('../../docs/guides/incidents', import.meta.url))

/** Each look of the console is a picture of the documentation. */
const looks = [
  { width: 1_280, height: 345, colorScheme: 'light' },
  { width: 390, height: 560, colorScheme: 'dark' },
] as const

const limitBytes = 80_000

export type Camera = Readonly<{ isOpen: boolean; take: (serving: Serving, incident: string) => Promise<void> }>

/** `WRITE_SCREENSHOTS=1` takes the pictures of incidents anew; else the camera does nothing. */
export async function openCamera(owner: Owner): Promise<Camera> {
  if (process.env.WRITE_SCREENSHOTS !== '1') return { isOpen: false, take: async () => undefined }
  const browser = await startChromium(owner)
  const take = async ({ admin }: Serving, incident: string): Promise<void> => {
    for (const { width, height, colorScheme } of looks) {
      const { page } = await openPage(browser, `${admin}/`, { colorScheme, viewport: { width, height } })
      await page.getByText('Live, every 2 s').waitFor()
      const { length } = await page.screenshot({ path: `${folder}/${incident}-${width}.png` })
      if (length > limitBytes) throw new Error(`the picture of ${incident} has ${length} bytes`)
      await page.context().close()
    }
  }
  return { isOpen: true, take }
}
