/** Characters without a visible shape: each of them is escaped before it reaches a terminal, a log, a page or an object. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { allow, badRequest } from "../../../../functions/shared/admission/answers.ts";
import { formatRebalanceState } from "../../../../functions/shared/annotations/rebalancing.ts";
import { formatStatus, skipStatus } from "../../../../functions/shared/annotations/skip-labels.ts";
import { escapeControls, escapeLines, escapeTexts } from "../../../../functions/shared/base/escape-control.ts";
import { createEvent } from "../../../../functions/shared/events/event.ts";
import { formatRefusals } from "../../../../functions/shared/ledger/contents.ts";
import { writeLedger } from "../../../../functions/shared/ledger/lease.ts";
import { messageFor } from "../../../../functions/shared/suspension/writing.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";
import { createTestApp, validation } from "../../../support/app.ts";
import { sluice } from "../../triggers/plugin/terminal.ts";
import { Harness, namespace, played } from "../reconcile/harness.ts";

const ofCategories = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const shapeless = Array.from({ length: 0x110000 }, (_, point) => point)
  .filter((point) => ofCategories.test(String.fromCodePoint(point)) || (point >= 0xe0000 && point <= 0xe007f))
  .map((point) => String.fromCodePoint(point));
/** Without the line ends that Sluice itself prints. */
const raw = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0000}-\u{e007f}]/u;

const some = fc.oneof(fc.constantFrom(...shapeless), fc.string({ unit: "binary", maxLength: 8 }));
/** Text that a user may store. The API server accepts no half of a surrogate pair. */
const text = fc
  .array(some, { minLength: 1, maxLength: 12 })
  .map((parts) => `t${parts.join("")}`)
  .filter((joined) => joined.isWellFormed());

test("every code point of Cc, Cf, Zl and Zp and every tag becomes an escape, which JSON reads back as the same text", () => {
  assert.ok(shapeless.length > 250, `${shapeless.length}`);
  for (const character of shapeless) {
    const escaped = escapeControls(`a${character}b`);
    assert.match(escaped, /^a(\\u[0-9a-f]{4}){1,2}b$/);
    assert.equal(JSON.parse(`"${escaped}"`), `a${character}b`);
  }
  for (const named of ["\u200b", "\u00ad", "\ufeff", "\u{e0041}", "\u2028", "\u202e", "\u0085"])
    assert.ok(shapeless.includes(named));
  assert.equal(escapeControls("\u{e0041}"), "\\udb40\\udc41");
});

test("no other code point is changed", () => {
  const others = Array.from({ length: 0x110000 }, (_, point) => point)
    .filter((point) => point < 0xd800 || point > 0xdfff)
    .map((point) => String.fromCodePoint(point))
    .filter((character) => !raw.test(character) && character !== "\n");
  assert.ok(others.length > 1_000_000);
  const all = others.join("");
  assert.equal(escapeControls(all), all);
  assert.equal(escapeLines(`${all}\n`), `${all}\n`);
  assert.deepEqual(escapeTexts([all]), [all]);
});

test("kubectl sluice prints none of these characters, whatever a ledger contains", async () => {
  const harness = await new Harness().prepare();
  const at = harness.cluster.serverTimeMs();
  await fc.assert(
    fc.asyncProperty(text, async (stored) => {
      const [short] = [stored.slice(0, 60).toWellFormed()];
      const verdict = { guard: short, zone: short, sentence: stored, since: at, at };
      harness.writeLedger({
        "sluice.dev/verdicts": JSON.stringify({ [short]: verdict }),
        "sluice.dev/refusals": JSON.stringify({ u: [short, stored, at] }),
        "sluice.dev/format": null,
      });
      for (const line of ["why", "why group", "why -o json", "release group group-a-0"]) {
        const { out, err: reported } = await sluice(harness, line);
        assert.doesNotMatch(out + reported.join("\n"), raw, line);
      }
      harness.writeLedger({ "sluice.dev/format": stored });
      for (const line of ["why", "why group", "release group group-a-0"]) {
        const { out, err: reported } = await sluice(harness, line);
        assert.doesNotMatch(out + reported.join("\n"), raw, line);
      }
    }),
    { numRuns: 60 },
  );
});

test("the messages of Events and log lines have none of these characters, whatever is reported", async () => {
  const harness = new Harness();
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const reporting = createReporting({ version: "1", serving: "all", level: "debug", keys: () => 0, destination });
  const about = { resource: "statefulsets", namespace, name: "group-a", uid: "u" } as const;
  await fc.assert(
    fc.asyncProperty(text, async (message) => {
      const given = { about, type: "Warning", reason: "R", message, identity: message } as const;
      await played(harness.timeline, createEvent(harness.cluster, "test", given));
      reporting.log("info", message, { [message]: message, nested: [{ message }], err: new Error(message) });
    }),
    { numRuns: 200 },
  );
  assert.ok(harness.events.length > 100);
  for (const event of harness.events) assert.doesNotMatch(event, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0000}-\u{e007f}]/u);
  assert.equal(lines.length, 200);
  for (const line of lines) assert.doesNotMatch(line.slice(0, -1), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0000}-\u{e007f}]/u);
});

interface Reviewed {
  readonly response: {
    readonly allowed: boolean;
    readonly warnings?: readonly string[];
    readonly status?: { readonly message: string; readonly details?: { readonly causes: readonly object[] } };
  };
}

function textsOf({ warnings = [], status }: Reviewed["response"]): string[] {
  const causes = (status?.details?.causes ?? []).flatMap((cause) => Object.values(cause));
  return [...warnings, ...(status === undefined ? [] : [status.message]), ...causes.map(String)];
}

test("answers and refusals of reviews have none of these characters, whatever they quote", async () => {
  let reported = "";
  let isAllowed = false;
  const handler = {
    review: async () =>
      isAllowed ? allow("test", { warnings: [reported] }) : badRequest("test", reported, { field: reported }),
  };
  const { app } = createTestApp({ admissions: [{ ...validation, handler }] });
  const post = async (request: object) => {
    const body = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };
    const headers = { "content-type": "application/json" };
    return app.request("/admission/zpdb-validation", { method: "POST", headers, body: JSON.stringify(body) });
  };
  const request = { uid: "u-1", operation: "CREATE", namespace: "n", name: "x", object: {} };
  await fc.assert(
    fc.asyncProperty(text, fc.boolean(), async (content, allowed) => {
      [reported, isAllowed] = [content, allowed];
      const { response } = (await (await post(request)).json()) as Reviewed;
      assert.equal(response.allowed, allowed);
      for (const shown of textsOf(response)) assert.doesNotMatch(shown, raw);
      const refused = await post({ ...request, name: `/${content}` });
      assert.equal(refused.status, 400);
      assert.doesNotMatch(await refused.text(), raw);
    }),
    { numRuns: 100 },
  );
});

test("the annotations that Sluice writes have none of these characters, and are read back unchanged", async () => {
  const harness = await new Harness().prepare();
  await fc.assert(
    fc.asyncProperty(text, async (content) => {
      const [message = ""] = Object.values(messageFor("guard", content));
      const refusal = { uid: "u", pod: "p-0", message: content, stampMs: 1 };
      const failed = { times: 1, lastMs: 1, guard: "g", why: content };
      const nothing = { balanced: undefined, balancedMs: undefined, claimedMs: undefined };
      const state = formatRebalanceState({ uid: "u", members: "m", sinceMs: 1, ...nothing, failed });
      const refusals = formatRefusals([refusal]);
      const status = formatStatus({ guard: "g", message: content, label: undefined, sinceMs: 1 });
      assert.equal(skipStatus.parse(status)?.message, content);
      for (const written of [message, refusals, state, status]) assert.doesNotMatch(written, raw);
      assert.deepEqual(JSON.parse(refusals).u[1], content);
      const { ledger } = harness;
      const verdicts = { test: { guard: "g", zone: "z", sentence: content, since: 1, at: 1 } };
      const change = { reservations: [], seenThrough: 1, membersThrough: 1, refusals: [refusal], verdicts };
      const written = await played(harness.timeline, writeLedger(harness.cluster, ledger, change));
      assert.equal(written.verdicts.test?.sentence, content);
      const { annotations } = harness.world.store.get("leases", { namespace, name: "sluice-group" }).metadata;
      assert.doesNotMatch(Object.values(annotations ?? {}).join(""), raw);
    }),
    { numRuns: 60 },
  );
});

test("no label of a metric has any of these characters, whatever a ledger names", async () => {
  const { metrics } = createReporting({
    version: "1",
    serving: "all",
    level: "error",
    keys: () => 0,
    destination: { write() {} },
  });
  let named = "";
  const standing = () => ({
    key: { namespace, group: named },
    zones: [],
    isUnreadable: false,
    rollout: { progressMs: 0, reconciledMs: 0 },
    ledger: {
      reservations: [{ by: named }],
      claims: [{ isKnown: false, kind: named, by: named }],
      verdicts: { [named]: { guard: named, zone: named, since: 0 } },
    },
  });
  metrics.showGroups(async () => [standing() as never], { reconciles: false });
  await fc.assert(
    fc.asyncProperty(text, async (name) => {
      named = name;
      const page = await metrics.registry.metrics();
      assert.ok(page.includes('function="t'), "the metrics have the names");
      assert.doesNotMatch(page, raw);
    }),
    { numRuns: 60 },
  );
});
