import fc from 'fast-check'
import t from 'tap'
import { html, toText, verbatim } from '../../console/html.ts'

t.test('a value in a page is text there, in contents and in attributes', async (t) => {
  const hostile = `<script>alert('1')</script>" onload="x" & &lt;`
  t.equal(
    toText(html`<p title="${hostile}">${hostile}</p>`),
    '<p title="&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&quot; &amp; &amp;lt;">' +
      '&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot; onload=&quot;x&quot; &amp; &amp;lt;</p>',
  )
})

t.test('no text whatever ends its element or its attribute', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const inside = toText(html`<p title="${text}">`).slice('<p title="'.length, -'">'.length)
      return !/[<>"']/.test(inside) && !/&(?!(?:amp|lt|gt|quot|#39);)/.test(inside)
    }),
  )
  t.pass()
})

t.test('own markup is not escaped twice, and no text from a network can pass for it', async (t) => {
  const part = html`<b>${'<'}</b>`
  t.equal(toText(html`${part}${[part, part]}${undefined}${3}${verbatim('<i>')}`), `${'<b>&lt;</b>'.repeat(3)}3<i>`)
  const forged = JSON.parse('{"markup":"<script>","Symbol(markup)":"<script>"}')
  t.notMatch(toText(html`${forged}`), /<script>/)
})

t.test('controls that turn the direction of writing, or show nothing, are visible', async (t) => {
  t.equal(toText(html`${'a\u202eb\u2066c\0d\x1be\r'}`), 'a\ufffdb\ufffdc\ufffdd\ufffde\ufffd')
  t.equal(toText(html`${'two\nlines\tand a tab, ü – 漢'}`), 'two\nlines\tand a tab, ü – 漢')
})
