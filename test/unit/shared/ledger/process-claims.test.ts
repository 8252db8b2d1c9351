/** Claims of kind `process`: their own fields, and that a process manager proves a restart which no probe has seen. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { changeClaim, type KnownClaim, makeClaim, parseClaims } from "../../../../functions/shared/ledger/claim.ts";
import { type ClaimedObjects, kinds } from "../../../../functions/shared/ledger/claim-kinds.ts";
import { LedgerUnreadable } from "../../../../functions/shared/ledger/errors.ts";
import type { RunningProcess } from "../../../../functions/shared/ledger/process-claim.ts";
import { nowMs, pod, statefulSet } from "../../functions/advance-zone-rollout/given.ts";

/** Both pods have been ready all the time: their probes never failed. */
const readySinceMs = nowMs - 600_000;

const claim = makeClaim({
  id: "one",
  kind: "process",
  zone: "a",
  members: [{ first: 3, last: 4 }],
  uids: { "a-3": "uid-3", "a-4": "uid-4" },
  by: "advance-process-restart",
  stampMs: nowMs - 1_000,
  phase: "starting",
  terms: "announced",
  anchor: { resource: "pods", name: "a-3", annotation: "sluice.dev/restart-id" },
  mode: "single",
  processes: { "a-3": "17 3000", "a-4": "17 4000" },
  sum: "1:00ff",
  epoch: 2,
  hold: false,
});

const running = (podUid: string, processId: string, isMember = true): RunningProcess => ({
  podUid,
  processId,
  isMember,
});

/** The pods as they were when the claim was made, and what their process managers report. */
function where(processes: Readonly<Record<number, RunningProcess>>, changes: Partial<ClaimedObjects> = {}) {
  const standing = [3, 4].map((ordinal) => pod(`a-${ordinal}`, { uid: `uid-${ordinal}`, readySinceMs }));
  const reported = Object.entries(processes).map(([ordinal, one]) => [Number(ordinal), one] as const);
  return {
    statefulSet: statefulSet("a", { replicas: 5 }),
    pods: new Map(standing.map((one) => [one.ordinal, one])),
    processes: new Map(reported),
    volumes: new Map(),
    isAnchored: true,
    ...changes,
  };
}

const isSettled = (at: ClaimedObjects, of: KnownClaim = claim) => kinds.process.isSettled(of, at, nowMs);
const bothBack = { 3: running("uid-3", "99 8000"), 4: running("uid-4", "99 9000") };

describe("how a claim of a process ends", () => {
  test("a process that is back before its probe fails settles its claim, although its pod was never unready", () => {
    assert.ok(isSettled(where(bothBack)));
    const { processes: _, line: __, ...rest } = claim;
    const before = makeClaim({ ...rest, readyMs: { "a-3": readySinceMs, "a-4": readySinceMs } });
    assert.ok(!isSettled(where(bothBack), before), "a claim without processes goes by ready times, as before");
  });

  const notBack: readonly (readonly [string, Readonly<Record<number, RunningProcess>>])[] = [
    ["the process of the claim runs", { ...bothBack, 4: running("uid-4", "17 4000") }],
    ["no process runs, or its process manager does not answer", { 3: bothBack[3] }],
    ["the process manager of another pod of that name answers", { ...bothBack, 4: running("uid-5", "99 9000") }],
    ["its node is no member of the database", { ...bothBack, 4: running("uid-4", "99 9000", false) }],
  ];
  for (const [what, processes] of notBack) {
    test(`a member is not back while ${what}`, () => assert.ok(!isSettled(where(processes))));
  }

  test("an answer of no process manager at all settles no claim that names processes, whatever the ready time", () => {
    const again = new Map([3, 4].map((ordinal) => [ordinal, pod(`a-${ordinal}`, { uid: `uid-${ordinal}` })]));
    const { processes: _, ...silent } = where({}, { pods: again });
    assert.ok(!isSettled(silent));
  });

  test("a member whose process was not known when the claim was made is not back, and one that ran none is", () => {
    const { "a-4": _, ...known } = claim.processes ?? {};
    assert.ok(!isSettled(where(bothBack), changeClaim(claim, { processes: known })));
    assert.ok(isSettled(where(bothBack), changeClaim(claim, { processes: { ...known, "a-4": "" } })));
  });

  test("a restarted process counts only while its pod is ready, and another pod only when it is ready", () => {
    const pods = (uid: string, since: number | undefined) =>
      where(bothBack, {
        pods: new Map([
          [3, pod("a-3", { uid: "uid-3", readySinceMs })],
          [4, pod("a-4", { uid, readySinceMs: since })],
        ]),
      });
    assert.ok(!isSettled(pods("uid-4", undefined)));
    assert.ok(!isSettled(pods("next", undefined)));
    assert.ok(isSettled(pods("next", readySinceMs)), "its process manager has reported nothing");
  });

  test("while the hold on the database is on, no claim is settled, not even one whose pods no StatefulSet wants", () => {
    const onHold = changeClaim(claim, { hold: true });
    assert.ok(!isSettled(where(bothBack), onHold));
    const gone = where({}, { statefulSet: statefulSet("a", { replicas: 3 }), pods: new Map() });
    assert.ok(!isSettled(gone, onHold));
    assert.ok(isSettled(gone));
  });

  for (const phase of ["preparing", "parked"]) {
    test(`a claim in phase ${phase} stands while the same process runs, or none`, () => {
      const before = changeClaim(claim, { phase });
      const same = { 3: running("uid-3", "17 3000"), 4: running("uid-4", "17 4000") };
      assert.ok(!isSettled(where(same), before));
      assert.ok(!isSettled(where({}), before));
    });
  }

  test("an abandoned claim names the members whose process managers must be told, and an earlier version's names none", () => {
    assert.deepEqual(kinds.process.undoes(claim, where({})), [{ first: 3, last: 4 }]);
    const { processes: _, line: __, ...rest } = claim;
    assert.deepEqual(kinds.process.undoes(makeClaim(rest), where({})), []);
  });
});

describe("the fields of a claim of a process", () => {
  const parse = (fields: object) =>
    parseClaims(JSON.stringify(fields), (why) => new LedgerUnreadable("sluice-group", why))[0];
  const stated = JSON.parse(claim.line) as object;

  test("they are read back as they were written, and what the claim does not have is not there", () => {
    assert.deepEqual(parse(stated), claim);
    const { mode: _, processes: __, sum: ___, epoch: ____, hold: _____, ...rest } = JSON.parse(claim.line);
    assert.deepEqual(Object.keys(parse(rest) ?? {}).sort(), [...Object.keys(rest), "isKnown", "line"].sort());
  });

  const malformed: readonly object[] = [
    { mode: "twice" },
    { processes: ["17 3000"] },
    { processes: { "a-3": 17 } },
    { processes: { "a-3": "9".repeat(254) } },
    { sum: 1 },
    { epoch: -1 },
    { epoch: 1.5 },
    { epoch: "2" },
    { hold: "true" },
  ];
  for (const fields of malformed) {
    const [name] = Object.keys(fields);
    test(`ledger-unreadable: a malformed ${name} makes the ledger unreadable: ${JSON.stringify(fields).slice(0, 40)}`, () => {
      assert.throws(() => parse({ ...stated, ...fields }), new RegExp(`${name} of the claim one \\(process\\)`));
    });
  }

  test("fields of these names in a claim of another kind are a later version's, and are written back as they were", () => {
    const line = JSON.stringify({ ...stated, kind: "node", mode: 7, hold: "x" });
    const [node] = parseClaims(line, (why) => new Error(why)) as KnownClaim[];
    assert.equal(node?.mode, undefined);
    const changed = JSON.parse(changeClaim(node as KnownClaim, { phase: "returned" }).line);
    assert.deepEqual([changed.mode, changed.hold], [7, "x"]);
  });
});
