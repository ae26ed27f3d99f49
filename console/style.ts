import { type Html, verbatim } from './html.ts'

/** Follows the system's light or dark scheme. Every pair of text and background has a contrast of at least 4.5 to 1. */
const colours = `
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --panel: #fff; --sunk: #f0f2f5; --line: #dde1e7; --strong-line: #c3c9d2;
  --ink: #1a212b; --quiet: #566070; --accent: #1d5599; --on-accent: #fff;
  --good: #14653a; --good-ground: #e4f3ea; --bad: #a5261c; --bad-ground: #fdecea; --bad-line: #e6b3ae;
  --hover: #eaf1f9; --curve: #3f77b5;
  --c0: #2f6fb3; --c1: #b4530f; --c2: #2c7d4f; --c3: #8b4bb0; --c4: #a8323e; --c5: #68707c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0f1318; --panel: #171c23; --sunk: #1d232c; --line: #2a323d; --strong-line: #3b4553;
    --ink: #dfe5ec; --quiet: #97a3b3; --accent: #8cbaf2; --on-accent: #0f1318;
    --good: #79d39a; --good-ground: #17301f; --bad: #ff9f93; --bad-ground: #3a1b18; --bad-line: #74332c;
    --hover: #202a37; --curve: #6d9bd1;
    --c0: #6ea8e8; --c1: #e39a56; --c2: #62c08d; --c3: #bf93e0; --c4: #ee8189; --c5: #a3adba;
  }
}
`

const frame = `
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { scroll-padding-top: 3.6rem; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums;
}
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; font-size: .92em; }
a { color: var(--accent); text-underline-offset: .18em; text-decoration-thickness: 1px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
main:focus { outline: none; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.skip { position: absolute; left: 1rem; top: -4rem; z-index: 9; background: var(--accent); color: var(--on-accent); padding: .4rem .8rem; border-radius: 0 0 6px 6px; }
.skip:focus { top: 0; }
.bar {
  position: sticky; top: 0; z-index: 5; display: flex; flex-wrap: wrap; align-items: center; gap: .25rem 1.75rem;
  padding: .45rem 1.25rem; background: var(--panel); border-bottom: 1px solid var(--line);
}
@media (max-width: 700px) { .bar { position: static; } html { scroll-padding-top: .5rem; } }
.brand { margin: 0; font-size: 1rem; font-weight: 650; letter-spacing: -.01em; }
.brand span { font-weight: 400; color: var(--quiet); }
.bar ul { display: flex; flex-wrap: wrap; gap: 0 .25rem; margin: 0; padding: 0; list-style: none; }
.bar nav a { display: block; padding: .25rem .55rem; border-radius: 5px; color: var(--quiet); text-decoration: none; }
.bar nav a:hover { color: var(--ink); background: var(--hover); }
.pulse { margin: 0 0 0 auto; display: flex; align-items: center; gap: .75rem; color: var(--quiet); font-size: .9rem; }
.lost .pulse { color: var(--bad); font-weight: 600; }
.lost main { opacity: .6; }
main { max-width: 1560px; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
section { margin-top: 2rem; }
#overview { margin-top: 1rem; }
h2 { margin: 0 0 .6rem; font-size: 1.05rem; font-weight: 650; letter-spacing: -.005em; }
.quiet { color: var(--quiet); }
.small { font-size: .82em; }
.word { padding: .5rem .85rem; border-radius: 7px; border: 1px solid transparent; }
.word.good { background: var(--good-ground); color: var(--good); }
.word.bad { background: var(--bad-ground); color: var(--bad); border-color: var(--bad-line); }
.notice { margin: 0 0 .8rem; padding-left: .75rem; border-left: 3px solid; }
.notice.good { border-color: var(--good); }
.notice.bad { border-color: var(--bad); }
.notice.bad strong { color: var(--bad); }
.notice p { margin: 0; }
.notice pre { margin: .5rem 0 0; padding: .6rem .8rem; max-height: 18rem; overflow: auto; background: var(--bad-ground); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: .4rem 2rem; margin: 0 0 1rem; }
.facts dt { color: var(--quiet); font-size: .82rem; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
`

const tiles = `
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 0 0 .6rem; }
.tile { position: relative; overflow: hidden; padding: .65rem .85rem .7rem; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
.tile dt { color: var(--quiet); font-size: .82rem; }
.tile dd { margin: 0; }
.tile .value { font-size: 1.6rem; font-weight: 600; line-height: 1.25; letter-spacing: -.02em; }
.tile .quiet { font-size: .82rem; }
.tile.alarming { border-color: var(--bad-line); background: var(--bad-ground); }
.tile.alarming .value { color: var(--bad); }
.tile.alarming dt, .tile.alarming .quiet { color: var(--ink); }
.tile svg { position: absolute; right: .85rem; top: 1.95rem; width: 42%; height: 1.6rem; }
`

const plots = `
.problems { margin: 0 0 .4rem; padding: .1rem 0 0 1.1rem; }
.problems li { margin: .15rem 0; overflow-wrap: anywhere; }
#problems p { margin: .3rem 0 0; }
.word { margin: 0 0 .5rem; overflow-wrap: anywhere; }
.replica { margin: 0; font-size: .85rem; overflow-wrap: anywhere; }
.controls { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; align-items: center; margin-bottom: .7rem; }
.controls .search { margin: 0; }
.controls label { color: var(--quiet); font-size: .82rem; }
.controls select { max-width: 12rem; }
.ranges { display: flex; gap: .25rem; margin: 0; padding: 0; list-style: none; }
.ranges a { display: block; padding: .3rem .7rem; border: 1px solid var(--line); border-radius: 5px; background: var(--panel); text-decoration: none; }
.ranges a[aria-current] { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem; margin-bottom: .75rem; }
@media (max-width: 1200px) { .plots { grid-template-columns: repeat(2, 1fr); } }
@media (max-width: 700px) { .plots { grid-template-columns: 1fr; } }
.plot { margin: 0; min-width: 0; padding: .6rem .85rem; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
.plot figcaption { font-weight: 600; font-size: .9rem; overflow-wrap: anywhere; }
.plot figcaption .quiet { font-weight: 400; }
.plot .field { position: relative; margin-top: .35rem; }
.plot .top { position: absolute; left: 0; top: 0; padding-right: .3rem; font-size: .75rem; color: var(--quiet); background: var(--panel); }
.plot svg { display: block; width: 100%; height: 7.5rem; }
.plot .grid { stroke: var(--line); fill: none; vector-effect: non-scaling-stroke; }
.plot .curve { fill: none; stroke-width: 1.6; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.plot .axis { display: flex; justify-content: space-between; margin: .1rem 0 .3rem; font-size: .75rem; color: var(--quiet); }
.keys { display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: 0; padding: 0; list-style: none; font-size: .82rem; }
.keys li { overflow-wrap: anywhere; }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; }
.curve.c0 { stroke: var(--c0); } .curve.c1 { stroke: var(--c1); } .curve.c2 { stroke: var(--c2); }
.area.c0 { fill: var(--c0); } .area.c1 { fill: var(--c1); } .area.c2 { fill: var(--c2); }
.area.c3 { fill: var(--c3); } .area.c4 { fill: var(--c4); } .area.c5 { fill: var(--c5); }
.key.c0 { background: var(--c0); } .key.c1 { background: var(--c1); } .key.c2 { background: var(--c2); }
.key.c3 { background: var(--c3); } .key.c4 { background: var(--c4); } .key.c5 { background: var(--c5); }
.spark { display: inline-block; width: 6rem; height: 1.1rem; vertical-align: middle; }
.spark polyline, .tile polyline { fill: none; stroke: var(--curve); stroke-width: 1.5; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: .75rem; }
#traffic > .box { margin-bottom: .75rem; max-height: 24rem; }
td.alarming { color: var(--bad); font-weight: 600; }
.kind { padding: 0 .35rem; border-radius: 4px; font-size: .8rem; border: 1px solid var(--strong-line); }
.kind.failure { background: var(--bad-ground); color: var(--bad); border-color: var(--bad-line); font-weight: 600; }
.prose { max-width: 52rem; overflow-wrap: anywhere; }
.prose h2 { margin-top: 2rem; }
.prose h3 { margin: 1.6rem 0 .4rem; }
.prose h3:target { color: var(--accent); }
.prose p { margin: .4rem 0; }
.prose ul { margin: .4rem 0; padding-left: 1.3rem; }
`

const tables = `
.cards { display: grid; grid-template-columns: repeat(12, 1fr); gap: .75rem; margin-bottom: .75rem; }
.cards .box { grid-column: span 4; }
.cards .box:nth-child(2) { grid-column: span 8; }
.cards .box:nth-child(1) { grid-row: span 2; }
@media (max-width: 1000px) { .cards .box.box { grid-column: 1 / -1; } }
.box { overflow: auto; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
.large { max-height: min(32rem, 75vh); }
table { width: 100%; border-collapse: collapse; }
caption { padding: .55rem .85rem .35rem; text-align: left; white-space: nowrap; font-weight: 600; font-size: .9rem; }
.box > table > caption:not(.unseen) { position: sticky; left: 0; }
th, td { padding: .26rem .85rem; text-align: left; vertical-align: baseline; white-space: nowrap; }
thead th { color: var(--quiet); font-weight: 500; font-size: .82rem; border-bottom: 1px solid var(--line); }
.large thead th { position: sticky; top: 0; background: var(--panel); z-index: 1; box-shadow: inset 0 -1px var(--line); }
tbody th { font-weight: 500; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
tbody tr:hover > * { background: var(--hover); }
.number { text-align: right; }
td.path { max-width: 34rem; white-space: normal; overflow-wrap: anywhere; min-width: 15rem; }
.path a { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .92em; color: inherit; text-decoration-color: var(--strong-line); }
.path a:hover { color: var(--accent); }
.methods { color: var(--quiet); font-size: .8rem; font-weight: 500; }
.tag { padding: 0 .35rem; border: 1px solid var(--strong-line); border-radius: 4px; color: var(--quiet); font-size: .78rem; }
.state { white-space: nowrap; }
.state > span { font-size: .75em; }
.state.good > span, .state.good { color: var(--good); }
.state.bad { color: var(--bad); font-weight: 600; }
.state.idle { color: var(--quiet); }
`

const matrix = `
.matrix { max-height: min(60rem, 85vh); }
.matrix table { border-collapse: separate; border-spacing: 0; }
.matrix th, .matrix td { padding: .24rem .3rem; }
.matrix thead th { z-index: 2; text-align: center; border-bottom: 0; background: var(--panel); }
.matrix thead tr:first-child th { height: 1.9rem; font-weight: 600; color: var(--ink); vertical-align: middle; padding: 0 .5rem; }
.matrix thead tr + tr th { top: 1.9rem; vertical-align: bottom; }
.matrix .corner.corner { left: 0; z-index: 3; text-align: left; vertical-align: bottom; padding: .4rem .85rem; height: auto; }
.upright { height: 8.2rem; }
.upright span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; }
.matrix tbody th { position: sticky; left: 0; z-index: 1; padding-left: .85rem; min-width: 21rem; max-width: 30rem; background: var(--panel); white-space: normal; overflow-wrap: anywhere; }
.matrix tbody tr:hover th { background: var(--hover); }
.place { display: block; color: var(--quiet); font-size: .78rem; font-weight: 400; }
.matrix td { width: 3.1rem; text-align: center; vertical-align: middle; font-size: .78rem; }
.matrix .first { border-left: 1px solid var(--strong-line); }
td.yes, dt.yes, tr:hover > td.yes { background: var(--good-ground); color: var(--good); font-weight: 600; }
td.no, dt.no { color: var(--quiet); }
@media (max-width: 700px) { .matrix .corner.corner, .matrix tbody th { position: static; min-width: 14rem; } }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; margin: .7rem 0 0; font-size: .85rem; }
.legend div { display: flex; gap: .5rem; align-items: baseline; }
.legend dt { padding: 0 .45rem; border-radius: 4px; border: 1px solid var(--line); font-size: .78rem; }
.legend dd { margin: 0; color: var(--quiet); }
`

const forms = `
button, input, select { font: inherit; color: inherit; }
::placeholder { color: var(--quiet); opacity: 1; }
input, select { height: 2.15rem; padding: .2rem .5rem; background: var(--panel); border: 1px solid var(--quiet); border-radius: 5px; }
button { height: 2.15rem; padding: .2rem .9rem; border: 1px solid var(--quiet); border-radius: 5px; background: var(--panel); cursor: pointer; }
button:hover { background: var(--hover); }
.pulse button { height: auto; padding: .1rem .6rem; }
.fields { display: flex; flex-wrap: wrap; gap: .7rem .9rem; align-items: end; padding: .85rem; margin-bottom: .8rem; background: var(--panel); border: 1px solid var(--line); border-radius: 8px; }
.fields label { display: grid; gap: .15rem; color: var(--quiet); font-size: .82rem; }
.fields input, .fields select { font-size: 14px; color: var(--ink); }
.fields input[name=host] { width: 7.5rem; }
.fields .wide { flex: 1 1 9rem; }
#checks td { white-space: normal; }
#differences { min-width: 24rem; }
.box:has(> #differences) { width: fit-content; max-width: 100%; }
#checks { margin-bottom: .2rem; }
.fields .wide input { width: 100%; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.fields button { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
.search { display: flex; flex-wrap: wrap; gap: .4rem .7rem; align-items: center; margin-bottom: .7rem; }
.search input { width: min(24rem, 100%); }
@media print { .bar, .fields, .search, .skip { display: none; } .box { overflow: visible; max-height: none; } }
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
`

export const style: Html = verbatim([colours, frame, tiles, plots, tables, matrix, forms].join(''))
