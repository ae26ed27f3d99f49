/** Lines from published advisories and from holes of this gateway, for any request, beside those of `vocabulary.ts`. */

/** Every mark that a name may have, but the hyphen itself. */
const marks = [..."!#$%&'*+.^_`|~"]

const deciding: readonly string[] = [
  'x-organization-id: 2',
  'x-gateway-identity: forged',
  'x-oauth-access-token: forged',
  'x-forwarded-for: 192.0.2.1',
  'x-forwarded-host: evil',
  'x-forwarded-prefix: /evil',
  'x-request-id: forged',
  'x-original-url: /admin/x',
  'x-http-method-override: DELETE',
  'x-real-ip: 192.0.2.1',
  'proxy-authorization: forged',
  'transfer-encoding: chunked',
  'content-length: 5',
]

/** Names that some server reads as one of those that decide: each mark for all hyphens, and for the first. */
export const aliasLines: readonly string[] = deciding.flatMap((line) => {
  const colon = line.indexOf(':')
  const [name, rest] = [line.slice(0, colon), line.slice(colon)]
  return marks.flatMap((mark) => [name.replaceAll('-', mark) + rest, name.replace('-', mark).toUpperCase() + rest])
})

/** Cookies that one parser or another reads as the organization's, and some that none does. */
export const cookieLines: readonly string[] = [
  'current-org-id=1',
  'current-org-id=2',
  'current-org-id =2',
  ' current-org-id=2',
  'current-org-id\t=2',
  'a=1;current-org-id=2',
  'a=1; current-org-id=1; b=2',
  'a=1, current-org-id=2',
  'a="1; current-org-id=2"',
  'a="; current-org-id=2',
  '"current-org-id"=2',
  'current-org-id="2"',
  'current-org-id=2; current-org-id=1',
  'current%2Dorg%2Did=2',
  'current%252Dorg-id=2',
  'Current-Org-Id=2',
  '=current-org-id=2',
  'current-org-id[]=2',
  'current-org-id%00=2',
  'current-org-id',
  'current-org-id=',
  'xcurrent-org-id=2',
  'current-org-idx=2',
  'current_org_id=2',
  'current.org.id=2',
  '\xa0current-org-id=2',
  '$Version=1; current-org-id=2; $Path=/',
].map((cookie) => `Cookie: ${cookie}`)

/** Good and bad values of `Host`. */
export const hosts: readonly string[] = [
  ...['h', 'H', 'h:80', 'h.', 'a.example', '127.0.0.1', '[::1]', '[::1]:8080', 'xn--e1afmkfd.example', 'a_b.example'],
  ...['h..', '.h', '*', 'h;x', 'h:', 'h:80:80', 'h:x', 'h:99999', 'h,evil', 'h@evil', 'h/evil', 'h\\evil', 'h evil'],
  ...['[::1', '::1', '[h]', '[::1]x', '[fe80::1%25eth0]', 'h%2eevil', '%68', 'h#evil', 'h?evil', '"h"', "h'", '{h}'],
  ...['\xe9.example', 'a..example', '-', '1.2.3', '0x7f.1', '1.2.3.4.', '999.1.1.1'],
]
