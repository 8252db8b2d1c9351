/** Stored text on a terminal or a page: it must not move the cursor or forge a line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { escapeControls, escapeLines, escapeTexts } from "../../../../functions/shared/base/escape-control.ts";
import { createEvent } from "../../../../functions/shared/events/event.ts";
import { createReporting } from "../../../../triggers/telemetry/logs-and-metrics.ts";
import { sluice } from "../../triggers/plugin/terminal.ts";
import { Harness, namespace } from "../reconcile/harness.ts";

/** Colours, a forged line, other line ends, C1 controls, and marks of right-to-left text. */
const hostile = "red\u001b[31m\nforged\r\u0085\u2028\u009b2J\u202egnp\u2066x\u200f\u061c\u007f";
const moving = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0000}-\u{e007f}]/u;
const plain = "red\\u001b[31m\\u000aforged\\u000d\\u0085\\u2028\\u009b2J\\u202egnp\\u2066x\\u200f\\u061c\\u007f";

test("control and direction characters become escapes, and all other letters stay", () => {
  assert.equal(escapeControls(hostile), plain);
  const others = "zoné-a … “3 > 2” 日本 😀 ▽ ~";
  assert.equal(escapeControls(others), others);
  assert.equal(escapeLines("a\u001b\nb\r\n"), "a\\u001b\nb\\u000d\n");
  assert.deepEqual(escapeTexts({ a: [hostile, 1, null], b: { c: "\t" } }), {
    a: [plain, 1, null],
    b: { c: "\\u0009" },
  });
  assert.equal(JSON.parse(escapeLines(JSON.stringify({ hostile }, undefined, 2))).hostile, hostile);
});

/** A group whose ledger has a message that another client has written. */
async function withForgedLedger(): Promise<Harness> {
  const harness = await new Harness().prepare();
  const at = harness.cluster.serverTimeMs();
  const verdict = { guard: "budget", zone: "group-a", sentence: hostile, since: at, at };
  const refusal = ["group-b-0", hostile, at];
  harness.writeLedger({
    "sluice.dev/verdicts": JSON.stringify({ [`other${hostile}`]: verdict }),
    "sluice.dev/refusals": JSON.stringify({ u: refusal }),
  });
  return harness;
}

test("kubectl sluice shows stored text with escapes, in tables, lists and JSON, and the text around it as it is", async () => {
  const harness = await withForgedLedger();
  for (const line of ["why group", "why", "why group -o json"]) {
    const { code, out } = await sluice(harness, line);
    assert.equal(code, 0);
    for (const shown of out.split("\n")) assert.doesNotMatch(shown, moving, line);
    assert.ok(out.includes("\\u001b[31m"), line);
    assert.ok(!/^forged/m.test(out), line);
  }
  const { refusals } = JSON.parse((await sluice(harness, "why group -o json")).out);
  assert.equal(refusals[0].sentence, hostile, "a program reads the stored text");
  harness.writeLedger({ "sluice.dev/settled-through": hostile });
  const { err } = await sluice(harness, "release group group-a-0");
  assert.match(err.join("\n"), /cannot be read as a ledger/);
  const { out } = await sluice(harness, "why group");
  for (const shown of [...err, ...out.split("\n")]) assert.doesNotMatch(shown, moving);
});

test("a log line has no control and no direction character, and a program reads back the logged text", () => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const reporting = createReporting({ version: "1", serving: "all", level: "debug", keys: () => 0, destination });
  reporting.log("info", hostile, { object: hostile });
  const [line = ""] = lines;
  assert.ok(line.endsWith("\n"));
  assert.doesNotMatch(line.slice(0, -1), moving);
  const { msg, object } = JSON.parse(line);
  assert.deepEqual([msg, object], [hostile, hostile]);
});

test("an Event shows such characters as escapes", async () => {
  const harness = await new Harness().prepare();
  const about = { resource: "statefulsets", namespace, name: "group-a", uid: "u" } as const;
  const event = createEvent(harness.cluster, "test", {
    about,
    type: "Warning",
    reason: "R",
    message: hostile,
    identity: "i",
  });
  await harness.goOn(1_000);
  await event;
  const events = harness.world.store.list("events").items as readonly { reason?: string; message?: string }[];
  assert.equal(events.find(({ reason }) => reason === "R")?.message, plain);
});
