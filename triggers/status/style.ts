/** The style of the page, in a file of its own, because the page's policy allows none inside of it. */
export const style = `:root {
  color-scheme: light dark;
  --paper: #ffffff; --ground: #f5f6f4; --line: #dcdfda; --soft: #eceeea; --ink: #171b19; --quiet: #565e59;
  --flow: #0b6a61; --flow-fill: #0d7c71; --flow-pale: #d8ece9; --wait: #7a4b00; --wait-pale: #fbefd8;
  --stop: #a3190f; --stop-fill: #c0291d; --stop-pale: #fbe3e0; --old: #79817c; --link: #0b5d8f; --on: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #171b1a; --ground: #0f1211; --line: #303735; --soft: #222826; --ink: #e7ebe8; --quiet: #a2aca6;
    --flow: #5fd0c2; --flow-fill: #3db3a5; --flow-pale: #12332f; --wait: #f0b95a; --wait-pale: #372a12;
    --stop: #ff9a8f; --stop-fill: #f07a6d; --stop-pale: #401d19; --old: #8b958f; --link: #83c4ee; --on: #0f1211;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
.stale main, .lost main { filter: grayscale(1); }
.stale .away { filter: none; }
.wrap { max-width: 76rem; margin: 0 auto; padding: 0 1.25rem 3rem; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.87em; }
a, summary { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 2px; }
h1, h2, h3, p, ul, ol, dl, dd, table { margin: 0; padding: 0; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.quiet { color: var(--quiet); }
.top { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; align-items: baseline; padding: 1.1rem 0 0.9rem; }
h1 { font-size: 1.15rem; }
.facts { display: flex; flex-wrap: wrap; gap: 0.15rem 1.1rem; color: var(--quiet); font-size: 0.9rem; list-style: none; }
.fresh { margin-left: auto; font-size: 0.9rem; color: var(--quiet); }
section { margin-top: 1.9rem; }
.live { flex-basis: 100%; display: flex; flex-wrap: wrap; gap: 0.4rem 1rem; justify-content: flex-end; font-size: 0.9rem; }
.live .card { flex: 1; }
.live [hidden] { display: none; }
h2 {
  font-size: 0.8rem; font-weight: 650; letter-spacing: 0.06em; text-transform: uppercase;
  color: var(--quiet); margin-bottom: 0.6rem;
}
.count { font-weight: 500; letter-spacing: 0; text-transform: none; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 0.8rem 1rem; }
.away, .need { border-left: 4px solid var(--stop-fill); }
.plain, .rest, .needs { list-style: none; }
.needs { display: grid; gap: 0.6rem; }
.todo { font-size: 0.93rem; margin-top: 0.2rem; }
.command { background: var(--soft); border-radius: 4px; padding: 0.1rem 0.45rem; user-select: all; }
.guard {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.82em;
  padding: 0.08rem 0.45rem; border-radius: 999px; background: var(--soft); border: 1px solid var(--line);
}
.guard.wait { background: var(--wait-pale); color: var(--wait); border-color: transparent; }
.guard.bad { background: var(--stop-pale); color: var(--stop); border-color: transparent; }
.guard.go { background: var(--flow-pale); color: var(--flow); border-color: transparent; }
.group + .group { margin-top: 0.8rem; }
.head { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0.1rem 1rem; align-items: baseline; }
h3 { font-size: 1.08rem; }
h3 .quiet { font-weight: 400; font-size: 0.85em; }
.why, .restarts {
  margin-top: 0.45rem; display: grid; grid-template-columns: minmax(6rem, max-content) minmax(0, 1fr); gap: 0.25rem 0.9rem;
}
dt { color: var(--quiet); font-size: 0.87rem; }
.bars { display: flex; gap: 3px; margin-top: 0.7rem; }
progress { flex: 1; min-width: 0; height: 0.6rem; accent-color: var(--flow-fill); }
.wide { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; margin-top: 0.5rem; font-size: 0.93rem; }
th { text-align: left; font-weight: 600; min-width: 6rem; }
td { min-width: 4rem; }
th small { display: block; font-weight: 400; color: var(--quiet); }
thead th { font-size: 0.78rem; font-weight: 550; color: var(--quiet); border-bottom: 1px solid var(--line); }
th, td { padding: 0.3rem 0.8rem 0.3rem 0; vertical-align: top; }
.pods { display: flex; flex-wrap: wrap; gap: 2px; width: max-content; max-width: 21.4rem; padding-top: 0.2rem; }
.pods i {
  width: 15px; height: 15px; border-radius: 3px; text-align: center; font-style: normal; display: block;
  font: 700 10px/15px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
}
.pods .new, .pods .old { border-radius: 50%; transform: scale(0.8); }
.pods .new { background: var(--flow-fill); }
.pods .old { box-shadow: inset 0 0 0 2px var(--old); }
.pods .reserved, .pods .going { background: var(--wait-pale); color: var(--wait); box-shadow: inset 0 0 0 1px var(--wait); }
.pods .claimed { background: var(--soft); box-shadow: inset 0 0 0 1px var(--quiet); }
.pods .unready { background: var(--stop-fill); color: var(--on); }
.pods .missing { color: var(--stop); box-shadow: inset 0 0 0 1px var(--stop); }
.legend {
  display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none;
  font-size: 0.82rem; color: var(--quiet); margin-top: 0.7rem;
}
.legend li { display: flex; align-items: center; gap: 0.35rem; }
.rest li { padding: 0.3rem 0; border-top: 1px solid var(--soft); }
.rest li:first-child { border-top: 0; }
summary { cursor: pointer; }
summary b, summary .quiet { display: inline-block; margin-right: 0.6rem; }
footer { margin-top: 2rem; color: var(--quiet); font-size: 0.88rem; display: flex; flex-wrap: wrap; gap: 0.3rem 1.4rem; }
@media (max-width: 46rem) {
  .wrap { padding: 0 0.75rem 2rem; }
  .fresh { margin-left: 0; }
  .why, .restarts { grid-template-columns: minmax(0, 1fr); }
}
@media (forced-colors: active) { .pods i { forced-color-adjust: none; } }
`;
