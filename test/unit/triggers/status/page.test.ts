/** The page has all that the JSON has, and nothing of it can become markup. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { escapeTexts } from "../../../../functions/shared/base/escape-control.ts";
import type { GroupStatus, Status } from "../../../../functions/shared/contract/status.ts";
import { scriptAsset } from "../../../../triggers/status/assets.ts";
import { renderPage } from "../../../../triggers/status/page.ts";
import { nowMs, reservation, zone } from "../../functions/advance-zone-rollout/given.ts";
import {
  certificate,
  event,
  groupOf,
  ledger,
  minute,
  parked,
  statusOf,
  volume,
  waitingFor,
} from "../../functions/show-status/given.ts";
import { statusWith } from "./given.ts";

const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" };
const unescaped = (text: string) => text.replace(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => entities[name] ?? "");

/** What a reader sees: the text without tags, and titles and labels. */
function seenIn(page: string): string {
  const attributes = [...page.matchAll(/(?:title|aria-label)="([^"]*)"/g)].map(([, text = ""]) => text);
  return unescaped([page.replace(/<[^>]*>/g, ""), ...attributes].join("\n"));
}

/** Every text of the status, with the fields that lead to it. */
function textsOf(value: unknown, path = ""): [path: string, text: string][] {
  if (typeof value === "string") return [[path, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => textsOf(one, `${path}.${key}`));
}

/** Words of the document that the page has in words of its own. */
const isWord = (path: string) => /\.(mode|state|ends|reason|cell)$/.test(path);
const isTime = (text: string) => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text);

async function assertWhole(status: Status, what: string): Promise<string> {
  const page = await renderPage(status);
  const seen = seenIn(page);
  for (const [path, text] of textsOf(status)) {
    if (isWord(path) || text === "" || (path.endsWith(".todo") && text === "nothing")) continue;
    if (isTime(text)) assert.ok(page.includes(`datetime="${text}"`), `${what}: ${path}: ${text}`);
    else assert.ok(seen.includes(text), `${what}: ${path}: ${text}`);
  }
  for (const { zones } of status.groups) for (const one of zones) assertPods(one, seen, what);
  for (const { guard, reason } of status.needsPerson) assert.ok(seen.includes(guard ?? reason), `${what}: ${reason}`);
  return page;
}

function assertPods(
  { name, cells, ready, updated, wanted, downCount, maxUnavailable }: GroupStatus["zones"][number],
  seen: string,
  what: string,
) {
  for (const { first, last } of cells) {
    const isNamed = seen.includes(first === last ? `${first} ` : `${first} to ${last} `);
    assert.ok(isNamed, `${what}: ${name} ${first} to ${last}`);
  }
  for (const text of [`${ready} of ${wanted}`, `${updated} of ${wanted}`, `${downCount} of ${maxUnavailable}`])
    assert.ok(seen.includes(text), `${what}: ${name}: ${text}`);
}

const states: Readonly<Record<string, Status>> = {
  "nothing is served": statusWith(),
  "a group at rest": statusOf({ ledger: waitingFor("done", 300) }),
  "a rollout": statusOf({ zones: [zone("a", "nnoo", { reserved: [reservation("a-2")] }), zone("b", "oooo")] }),
  "a chosen wait": statusOf({ zones: [zone("a", "nno")], ledger: waitingFor("paused", 300) }),
  "a wait that needs a person": statusOf({
    zones: [zone("a", "noo")],
    ledger: waitingFor("strategy-not-on-delete", 9),
  }),
  "a guard of a later version": statusOf({ zones: [zone("a", "noo")], ledger: waitingFor("of-a-later-version", 9) }),
  "a pod that is stuck": statusOf({
    zones: [zone("a", "Bno")],
    stuckSinceMs: new Map([["uid-of-a-0", nowMs - 9 * minute]]),
  }),
  "pods that are missing, terminating and not ready": statusOf({ zones: [zone("a", "n.tx")] }),
  "a ledger that cannot be read": statusOf({
    ledger: { kind: "unreadable", lease: "sluice-group", message: "no ledger" },
  }),
  "ledgers that cannot be listed": statusOf(
    {},
    { leftOut: [{ part: "ledgers", why: "no right", sinceMs: nowMs - minute }] },
  ),
  "an API server that is away": statusOf({}, { unansweredSinceMs: nowMs - minute }),
  "evictions that wait, and were refused": statusOf(
    {},
    {
      events: [
        event("EvictionRefused", "zone-budget: 2 of 3 down", 1),
        event("EvictionWaits", "other-zone: b first", 1, "c"),
      ],
    },
  ),
  "evictions that wait here": statusOf({}, { parked: [parked(1), { ...parked(2), node: undefined }] }),
  "volumes kept": statusOf({}, { volumes: [volume(2), volume(undefined, { zone: "", name: "x" }), volume(-2)] }),
  "a certificate that ends": statusOf({}, { certificate: certificate(3) }),
  "names of 253 characters": statusOf(
    { key: { namespace: "n".repeat(63), group: "g".repeat(253) }, zones: [zone("z".repeat(253), "no")] },
    { events: [event("EvictionRefused", `zone-budget: ${"m".repeat(1_000)}`, 1, "z".repeat(253))] },
  ),
  "many pods": statusOf({ zones: [zone("a", `${"n".repeat(60)}${"o".repeat(61)}`)] }),
  "2147483647 replicas": statusOf({ zones: [zone("a", "n", { replicas: 2_147_483_647 })] }),
};

for (const [what, status] of Object.entries(states))
  test(`without script the page has each text, time, pod and command of the JSON: ${what}`, async () => {
    const page = await assertWhole(status, what);
    assert.doesNotMatch(page, /<(button|form|input|style)\b|\bon[a-z]+=|style="/);
    const scripts = page.match(/<script\b.*?<\/script>/gs);
    assert.deepEqual(scripts, [`<script type="module" src="./${scriptAsset.path}"></script>`]);
    const links = [...page.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, link = ""]) => link);
    assert.deepEqual(
      links.filter((link) => !/^(\.\/|\?|data:,$)/.test(link)),
      [],
      "a proxy may put a path before it",
    );
  });

test("a command stands as code, to be copied with its namespace, and a request as text", async () => {
  const paused = await renderPage(states["a chosen wait"] ?? assert.fail());
  assert.match(
    paused,
    /<code class="command">kubectl annotate statefulset -n db a grafana\.com\/rollout-paused-<\/code>/,
  );
  const wrong = await renderPage(states["a wait that needs a person"] ?? assert.fail());
  assert.match(wrong, /<span>set updateStrategy\.type: OnDelete, or take/);
});

test("the title has the worst state: no answer, then what needs a person, then work", async () => {
  const titleOf = async (status: Status) => /<title>(.*)<\/title>/.exec(await renderPage(status))?.[1];
  const broken = states["a wait that needs a person"] ?? assert.fail();
  assert.equal(await titleOf({ ...broken, unansweredSince: broken.at }), "? no answer of the API server · Sluice");
  assert.equal(await titleOf(broken), "! 1 needs you · Sluice");
  assert.equal(await titleOf(states["a rollout"] ?? assert.fail()), "1 group at work · Sluice");
  assert.equal(await titleOf(states["a group at rest"] ?? assert.fail()), "all at rest · Sluice");
});

test("what is read out names what needs a person, and at most three groups at work", async () => {
  const newsOf = async (status: Status) => /data-news="([^"]*)"/.exec(await renderPage(status))?.[1];
  assert.equal(await newsOf(states["a group at rest"] ?? assert.fail()), "Nothing needs you.");
  assert.equal(await newsOf(states["a rollout"] ?? assert.fail()), "Nothing needs you; group: 2 of 8 updated.");
  const broken = states["a wait that needs a person"] ?? assert.fail();
  assert.equal(await newsOf(broken), "1 needs you; group: 1 of 3 updated.");
  const [group] = broken.groups;
  const four = { ...broken, groups: Array(4).fill(group), needsPerson: Array(2).fill(broken.needsPerson[0]) };
  assert.equal(await newsOf(four), `2 need you${"; group: 1 of 3 updated".repeat(3)}.`);
  assert.equal(await newsOf({ ...broken, unansweredSince: broken.at }), "The API server does not answer.");
});

test("while the API server does not answer, the page says so above everything, and is grey", async () => {
  const page = await renderPage(states["an API server that is away"] ?? assert.fail());
  assert.match(page, /<body class="stale">/);
  assert.ok(page.indexOf("has not answered since") < page.indexOf("Needs you"));
});

test("markup, quotes, and characters that control or turn the text stay text, whichever field they are in", async () => {
  const hostile = `"><img src=x onerror=alert(1)>'<script>&amp;\u202e\u0007`;
  const replaced = (value: unknown): unknown => {
    if (typeof value === "string") return isTime(value) ? value : hostile;
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(replaced);
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [key, isWord(`.${key}`) ? one : replaced(one)]),
    );
  };
  for (const [what, status] of Object.entries(states)) {
    const forged = escapeTexts(replaced(status) as Status);
    const page = await assertWhole(forged, what);
    assert.doesNotMatch(page, /<(img|script>)|\p{Cf}/u, what);
    assert.ok(!page.includes("\u0007"), what);
  }
});

test("3 x 1,000 pods and 500 groups at rest stay small", async () => {
  const large = ["a", "b", "c"].map((name) => zone(name, `${"n".repeat(600)}${"o".repeat(390)}${"x".repeat(10)}`));
  const events = Array.from({ length: 200 }, (_, index) => {
    const message = `zone-budget: ${index % 7} of 3 pods are down in db-zone-${index}, so db-zone-${index}-0 stays until one is back`;
    return event(index % 2 === 0 ? "EvictionRefused" : "RolloutWaiting", message, index);
  });
  const page = await renderPage(statusOf({ zones: large }, { events }));
  const elements = (text: string) => text.match(/<[a-z]/g)?.length ?? 0;
  assert.ok(
    gzipSync(page).byteLength < 20_000 && elements(page) < 1_500,
    `${gzipSync(page).byteLength} ${elements(page)}`,
  );
  const huge = statusOf({ zones: [zone("a", `${"n".repeat(9_000)}${"x".repeat(1_000)}`)] });
  assert.ok(elements(await renderPage(huge)) < 1_500, "10,000 pods");
  const zones = ["a", "b", "c"].map((name) => zone(name, "nnn"));
  const many = Array.from({ length: 500 }, (_, index) =>
    groupOf({ key: { namespace: "db", group: `g-${index}` }, zones, ledger: ledger() }),
  );
  const listed = gzipSync(await renderPage(statusOf({}, { groups: many, events }))).byteLength;
  assert.ok(listed < 60_000, `${listed} bytes`);
  const small = ["a", "b", "c"].map((name) => zone(name, `${"n".repeat(10)}${"o".repeat(10)}`));
  const usual = await renderPage(statusOf({ zones: small, ledger: waitingFor("zone-settling", 1) }, { events }));
  assert.ok(
    gzipSync(usual).byteLength < 12_000 && elements(usual) < 800,
    `${gzipSync(usual).byteLength} ${elements(usual)} elements`,
  );
});
