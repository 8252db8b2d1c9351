import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { type Cluster, ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { LedgerUnreadable, LedgerUnwritable } from "../../../../functions/shared/ledger/errors.ts";
import {
  createLedger,
  groupKeyOfLease,
  listLedgerLeases,
  readLedger,
  writeLedger,
} from "../../../../functions/shared/ledger/lease.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import type { LedgerChange, StoredLedger } from "../../../../functions/shared/ledger/reservation.ts";
import { findAbandoned } from "../../../../functions/shared/ledger/settling.ts";
import { leaseObject, namespace, nowMs, podObject, reservation } from "../../functions/advance-zone-rollout/given.ts";

const key = { namespace, group: "group" };
const annotations = { "sluice.dev/group": "group" };
const verdict = { guard: "budget", zone: "a", sentence: "a: 1 of 3 down", since: nowMs - 5_000, at: nowMs };
const refusal = { uid: "u", pod: "a-1", message: "no", stampMs: nowMs };

function ledgerOf(more: Readonly<Record<string, string>>): StoredLedger {
  return parseLedger(key, leaseObject("sluice-group", { ...annotations, ...more }));
}

/** A cluster with only the verbs that a test gives; all others throw. */
function clusterOf(verbs: Partial<Cluster>): Cluster {
  return { serverTimeMs: () => nowMs, ...verbs } as Cluster;
}

function clusterError(code: number): ClusterError {
  return new ClusterError({ code, reason: "Test", message: "test", verb: "get", resource: "leases" });
}

/** What {@link writeLedger} sends, and what a reader makes of it. */
async function written(ledger: StoredLedger, change: Partial<LedgerChange>) {
  const patches: { metadata: Record<string, unknown> & { annotations: Record<string, string> } }[] = [];
  const cluster = clusterOf({
    patch: (async (_resource: string, _key: object, body: (typeof patches)[0]) => {
      patches.push(body);
      return leaseObject(ledger.name, { ...annotations, ...body.metadata.annotations }, { resourceVersion: "12" });
    }) as unknown as Cluster["patch"],
  });
  const none = { reservations: [], refusals: [], verdicts: {}, seenThrough: 0, membersThrough: 0 };
  const after = await writeLedger(cluster, ledger, { ...none, ...change });
  return { after, body: patches[0] };
}

test("the ledger is called sluice-GROUP if that is a valid object name (R1)", () => {
  for (const group of ["ingester", "a", "0", "a.b", "a-b", "store-gateway.v2", "x".repeat(246)]) {
    assert.equal(ledgerName(group), `sluice-${group}`);
  }
});

test("the ledger of any other group has 16 hex digits of the name's SHA-256 (R1)", () => {
  for (const group of ["", "Group", "a_b", "a.", ".a", "-", "a-", "a..b", "a/b", "a b", "ä", "a\n", "x".repeat(247)]) {
    const digest = createHash("sha256").update(group).digest("hex").slice(0, 16);
    assert.equal(ledgerName(group), `sluice-${digest}`, JSON.stringify(group));
  }
});

test("a written ledger is read back unchanged", async () => {
  const change: LedgerChange = {
    reservations: [reservation("a-0"), reservation("a-11", { by: "evaluate-eviction" }), reservation("b-0")],
    seenThrough: 41,
    membersThrough: 17,
    refusals: [refusal],
    verdicts: { "advance-zone-rollout": verdict },
  };
  const { after } = await written(ledgerOf({}), change);
  assert.deepEqual(after.reservations, change.reservations);
  assert.deepEqual(after.refusals, change.refusals);
  assert.deepEqual(after.verdicts, change.verdicts);
  assert.equal(after.settledThrough, 41);
  assert.equal(after.resourceVersion, "12");
});

test("a StatefulSet's reservations are kept whatever its name is", async () => {
  const odd = [reservation("constructor-0"), reservation("a.b-1"), reservation("0-2")];
  const { after } = await written(ledgerOf({}), { reservations: odd });
  assert.deepEqual(
    after.reservations.toSorted((one, other) => one.ordinal - other.ordinal),
    odd,
  );
});

test("a new ledger without a decision has no entries and no settled-through", () => {
  const ledger = ledgerOf({});
  assert.deepEqual(ledger.reservations, []);
  assert.equal(ledger.settledThrough, undefined);
  assert.equal(ledger.createdMs, Date.parse("2026-01-01T00:00:00Z"));
});

test("a write is conditional on the uid and the resourceVersion that were read (R3)", async () => {
  const { body } = await written(ledgerOf({}), {});
  assert.equal(body?.metadata.uid, "uid-of-sluice-group");
  assert.equal(body?.metadata.resourceVersion, "11");
});

test("a write replaces all annotations except claims, records the format, and leaves no trace of settled entries", async () => {
  const { body, after } = await written(ledgerOf({ "sluice.dev/reservations": '{"a":{"0":["u","f",1]}}' }), {});
  assert.deepEqual(body?.metadata.annotations, {
    "sluice.dev/format": "1",
    "sluice.dev/settled-through": "0",
    "sluice.dev/members-through": "0",
    "sluice.dev/reservations": "{}",
    "sluice.dev/refusals": "{}",
    "sluice.dev/verdicts": "{}",
  });
  assert.deepEqual(after.reservations, []);
});

test("members-through never decreases (R5)", async () => {
  const ledger = ledgerOf({ "sluice.dev/members-through": "100" });
  assert.equal((await written(ledger, { membersThrough: 99 })).after.membersThrough, 100);
  assert.equal((await written(ledger, { membersThrough: 101 })).after.membersThrough, 101);
});

test("settled-through never decreases (R8)", async () => {
  const ledger = ledgerOf({ "sluice.dev/settled-through": "100" });
  assert.equal((await written(ledger, { seenThrough: 99 })).after.settledThrough, 100);
  assert.equal((await written(ledger, { seenThrough: 101 })).after.settledThrough, 101);
});

const malformed: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
  ["no JSON", { "sluice.dev/reservations": "{" }],
  ["empty text", { "sluice.dev/reservations": "" }],
  ["null", { "sluice.dev/reservations": "null" }],
  ["a list", { "sluice.dev/reservations": "[]" }],
  ["a number", { "sluice.dev/reservations": "5" }],
  ["a text", { "sluice.dev/reservations": '""' }],
  ["a zone that is no object", { "sluice.dev/reservations": '{"a":1}' }],
  ["a zone that is null", { "sluice.dev/reservations": '{"a":null}' }],
  ["an ordinal that is no number", { "sluice.dev/reservations": '{"a":{"x":["u","f",1]}}' }],
  ["a negative ordinal", { "sluice.dev/reservations": '{"a":{"-1":["u","f",1]}}' }],
  ["an entry that is no list", { "sluice.dev/reservations": '{"a":{"0":"u"}}' }],
  ["an entry without a stamp", { "sluice.dev/reservations": '{"a":{"0":["u","f"]}}' }],
  ["a stamp that is no whole number", { "sluice.dev/reservations": '{"a":{"0":["u","f",1.5]}}' }],
  ["a stamp before all time", { "sluice.dev/reservations": '{"a":{"0":["u","f",-9000000000000000]}}' }],
  ["a stamp after all time", { "sluice.dev/reservations": '{"a":{"0":["u","f",9000000000000000]}}' }],
  ["a stamp that is text", { "sluice.dev/reservations": '{"a":{"0":["u","f","1"]}}' }],
  ["a uid that is no text", { "sluice.dev/reservations": '{"a":{"0":[1,"f",1]}}' }],
  ["a function that is no text", { "sluice.dev/reservations": '{"a":{"0":["u",null,1]}}' }],
  ["a settled-through that is no number", { "sluice.dev/settled-through": "soon" }],
  ["an empty settled-through", { "sluice.dev/settled-through": "" }],
  ["another group's name", { "sluice.dev/group": "other" }],
];

for (const [what, values] of malformed) {
  test(`ledger-unreadable: a ledger with ${what} is unreadable and not empty, and the message says how to repair it`, () => {
    assert.throws(
      () => ledgerOf(values),
      (error: unknown) =>
        error instanceof LedgerUnreadable &&
        /^Lease sluice-group cannot be read as a ledger: .+\. Correct it, or delete it/.test(error.message),
    );
  });
}

test("the fourth element of a renewed reservation is its first stamp, and a reservation without a renewal has three elements", async () => {
  const renewed = reservation("a-0", { stampMs: nowMs, sinceMs: nowMs - 30_000 });
  const { after, body } = await written(ledgerOf({}), {
    reservations: [renewed, reservation("a-1", { stampMs: nowMs, sinceMs: nowMs }), reservation("a-2")],
  });
  assert.deepEqual(after.reservations, [renewed, reservation("a-1", { stampMs: nowMs }), reservation("a-2")]);
  const { a } = JSON.parse(body?.metadata.annotations["sluice.dev/reservations"] ?? "");
  assert.deepEqual([a[0].length, a[0][3], a[1].length, a[2].length], [4, nowMs - 30_000, 3, 3]);
});

test("the fifth element is the time at which a process saw the reservation overdue, if that is after its stamp", async () => {
  const overdue = reservation("a-0", { stampMs: nowMs, overdueSeenMs: nowMs + 200_000 });
  const renewed = reservation("a-1", { stampMs: nowMs, sinceMs: nowMs - 30_000, overdueSeenMs: nowMs + 200_000 });
  const { after, body } = await written(ledgerOf({}), { reservations: [overdue, renewed] });
  assert.deepEqual(after.reservations, [overdue, renewed]);
  const { a } = JSON.parse(body?.metadata.annotations["sluice.dev/reservations"] ?? "");
  assert.deepEqual(
    [a[0].slice(2), a[1].slice(2)],
    [
      [nowMs, nowMs, nowMs + 200_000],
      [nowMs, nowMs - 30_000, nowMs + 200_000],
    ],
  );
  for (const odd of ["9", null, nowMs + 0.5, nowMs, nowMs - 1, {}]) {
    const entries = { a: { 0: ["u", "f", nowMs, nowMs, odd] } };
    const [read] = ledgerOf({ "sluice.dev/reservations": JSON.stringify(entries) }).reservations;
    assert.equal(read?.overdueSeenMs, undefined, String(odd));
  }
});

test("an entry with more elements, of a later version, is read, and a first stamp that is not before the last one is ignored", () => {
  const readOf = (...more: unknown[]) =>
    ledgerOf({ "sluice.dev/reservations": JSON.stringify({ a: { 0: ["u", "f", 1_000, ...more] } }) }).reservations;
  const plain = { statefulSet: "a", ordinal: 0, uid: "u", by: "f", stampMs: 1_000 };
  assert.deepEqual(readOf(900, { later: true }, "more"), [{ ...plain, sinceMs: 900 }]);
  for (const odd of ["900", null, 900.5, 1_000, 1_001, {}]) assert.deepEqual(readOf(odd), [plain], String(odd));
});

test("two functions may each have a refusal of the same pod, and a version that knows only one keeps both", async () => {
  const given = { ...refusal, message: "given up", by: "evaluate-eviction" };
  const { after, body } = await written(ledgerOf({}), { refusals: [refusal, given] });
  assert.deepEqual(after.refusals, [refusal, given]);
  const entries: object = JSON.parse(body?.metadata.annotations["sluice.dev/refusals"] ?? "");
  assert.deepEqual(entries, {
    u: ["a-1", "no", nowMs],
    "u/evaluate-eviction": ["a-1", "given up", nowMs, "evaluate-eviction"],
  });
});

test("the longest names of the API server are read", () => {
  const longest = "u".repeat(253);
  const reservations = JSON.stringify({ [longest]: { 0: [longest, longest, 1] } });
  const refusals = JSON.stringify({ u: [longest, "no", 1], v: [`${longest}u`, "no", 1] });
  const ledger = ledgerOf({ "sluice.dev/reservations": reservations, "sluice.dev/refusals": refusals });
  assert.deepEqual(ledger.reservations, [{ statefulSet: longest, ordinal: 0, uid: longest, by: longest, stampMs: 1 }]);
  assert.deepEqual(ledger.refusals, [{ uid: "u", pod: longest, message: "no", stampMs: 1 }]);
});

test("a refusal belongs to the function in its key if its value names it as well, and otherwise to the rollout", () => {
  const given = { pod: "a-0", message: "no", stampMs: 1 };
  const entries = { u: ["a-0", "no", 1, "other"], "v/5": ["a-0", "no", 1, 5], "w/other": ["a-0", "no", 1, "other"] };
  assert.deepEqual(ledgerOf({ "sluice.dev/refusals": JSON.stringify(entries) }).refusals, [
    { uid: "u", ...given },
    { uid: "v/5", ...given },
    { uid: "w", ...given, by: "other" },
  ]);
});

test("a Lease without a group is no ledger", () => {
  assert.throws(() => parseLedger(key, leaseObject("sluice-group", {})), LedgerUnreadable);
});

test("malformed refusals and verdicts are dropped, because they permit nothing", () => {
  const none = ["{", "[]", '[["a-0","no",1]]', "null", "5"];
  const dateless = '{"u":["a-0","no",9000000000000000]}';
  for (const text of [...none, dateless, '{"u":1}', '{"u":["a-0","no"]}', '{"u":["a-0",1,1]}', '{"u":[0,"no",1]}']) {
    assert.deepEqual(ledgerOf({ "sluice.dev/refusals": text }).refusals, [], text);
    assert.deepEqual(ledgerOf({ "sluice.dev/verdicts": text }).verdicts, {}, text);
  }
  const bad = { guard: 1, zone: null, sentence: 5, since: "yesterday", at: "now" };
  const malformed = Object.entries(bad).map(([name, value]) => [name, { ...verdict, [name]: value }]);
  const partly = JSON.stringify({ good: verdict, ...Object.fromEntries(malformed), none: null });
  assert.deepEqual(ledgerOf({ "sluice.dev/verdicts": partly }).verdicts, { good: verdict });
  const times = JSON.stringify({ good: verdict, ended: { ...verdict, at: 9e15 }, begun: { ...verdict, since: -1 } });
  assert.deepEqual(ledgerOf({ "sluice.dev/verdicts": times }).verdicts, { good: verdict }, "times without a date");
});

test("a missing ledger is undefined, and a failure of the API server is an error", async () => {
  const failing = (code: number) => clusterOf({ get: async () => Promise.reject(clusterError(code)) });
  assert.equal(await readLedger(failing(404), key), undefined);
  await assert.rejects(readLedger(failing(500), key), ClusterError);
});

test("a ledger is created without owner references, with its label and its group in plain text (R1, R4)", async () => {
  const bodies: { metadata: Record<string, unknown> }[] = [];
  const create = async (_resource: string, _namespace: string, body: (typeof bodies)[0]) => {
    bodies.push(body);
    return leaseObject("sluice-group", annotations);
  };
  await createLedger(clusterOf({ create: create as unknown as Cluster["create"] }), key);
  assert.deepEqual(bodies[0]?.metadata, {
    name: "sluice-group",
    labels: { "app.kubernetes.io/managed-by": "sluice" },
    annotations: { ...annotations, "sluice.dev/format": "1" },
  });
});

test("a ledger that another process has created meanwhile is read instead", async () => {
  const cluster = clusterOf({
    create: async () => Promise.reject(clusterError(409)),
    get: (async () => leaseObject("sluice-group", annotations)) as unknown as Cluster["get"],
  });
  assert.equal((await createLedger(cluster, key))?.name, "sluice-group");
});

test("a reservation is abandoned only if it is 150 s old and a direct GET shows its own pod, not terminating (R10)", async () => {
  const old = reservation("a-0", { stampMs: nowMs - 150_000 });
  const recent = reservation("a-0", { stampMs: nowMs - 149_999 });
  const asked: string[] = [];
  const abandoned = async (entry: typeof old, answer: ReturnType<typeof podObject> | number) => {
    const get = async (_resource: string, { name }: { name: string }) => {
      asked.push(name);
      return typeof answer === "number" ? Promise.reject(clusterError(answer)) : answer;
    };
    return (await findAbandoned(clusterOf({ get: get as unknown as Cluster["get"] }), namespace, [entry])).has(entry);
  };
  assert.equal(await abandoned(recent, podObject("a-0")), false);
  assert.deepEqual(asked, []);
  assert.equal(await abandoned(old, podObject("a-0")), true);
  assert.equal(await abandoned(old, podObject("a-0", { metadata: { uid: "next" } })), false);
  assert.equal(
    await abandoned(old, podObject("a-0", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })),
    false,
  );
  assert.equal(await abandoned(old, 404), false);
  await assert.rejects(abandoned(old, 500), ClusterError);
});

test("a ledger that could not be read back is not written, and the message names the entry", async () => {
  const ledger = ledgerOf({});
  const one = reservation("a-0");
  const bad: [Partial<LedgerChange>, RegExp][] = [
    [{ reservations: [{ ...one, ordinal: 1e30 }] }, /: the reservation of a-1e\+30 is malformed$/],
    [{ reservations: [{ ...one, ordinal: 2 ** 31 }] }, /: the reservation of a-2147483648 is malformed$/],
    [{ reservations: [{ ...one, ordinal: -1 }] }, /: the reservation of a--1 is malformed$/],
    [{ reservations: [{ ...one, stampMs: 0.5 }] }, /: the reservation of a-0 is malformed$/],
    [{ reservations: [one, { ...one, uid: "other" }] }, /: 1 of 2 reservations would be lost$/],
    [{ seenThrough: Number.NaN }, /: annotation sluice\.dev\/settled-through is "NaN"/],
  ];
  const change = { reservations: [], refusals: [], verdicts: {}, seenThrough: 0, membersThrough: 0 };
  for (const [wrong, expected] of bad) {
    const writing = writeLedger(clusterOf({}), ledger, { ...change, ...wrong });
    await assert.rejects(writing, (error) => error instanceof LedgerUnwritable && expected.test(error.message));
  }
  const { after } = await written(ledger, { reservations: [{ ...one, ordinal: 2 ** 31 - 1 }] });
  assert.equal(after.reservations[0]?.ordinal, 2 ** 31 - 1);
});

test("a ledger with an ordinal beyond int32 is unreadable, so that it permits nothing", () => {
  const text = JSON.stringify({ a: { "2147483648": ["u", "f", nowMs] } });
  assert.throws(() => ledgerOf({ "sluice.dev/reservations": text }), LedgerUnreadable);
});

test("a ledger without times has none, and only the annotations of others count as theirs", () => {
  const plain = ledgerOf({});
  const times = [
    ...["lastDownscales", "hasMalformedTimes", "looks", "lastRemovalMs", "lastRestartMs"],
    ...["namedConfigs", "knownTriggers"],
  ];
  assert.deepEqual(
    Object.keys(plain).filter((name) => times.includes(name)),
    [],
  );
  const ours = { "sluice.dev/reservations": "{}", "sluice.dev/verdicts": "{}", "sluice.dev/claims": "" };
  assert.equal(ledgerOf(ours).othersBytes, plain.othersBytes);
  assert.equal(plain.othersBytes, "sluice.dev/groupgroup".length, "the group never changes");
  assert.equal(ledgerOf({ "example.com/a": "bc" }).othersBytes, plain.othersBytes + "example.com/abc".length);
});

test("a time of the last removal that cannot be read counts as one of the future, and that of the last restart as none", () => {
  const written = { "sluice.dev/last-removal": "yesterday", "sluice.dev/last-restart": "yesterday" };
  const ledger = ledgerOf(written);
  assert.deepEqual([ledger.lastRemovalMs, "lastRestartMs" in ledger], [Number.MAX_SAFE_INTEGER, false]);
  const restarted = ledgerOf({ "sluice.dev/last-restart": "1767225600000" });
  assert.equal(restarted.lastRestartMs, 1_767_225_600_000);
});

test("ledgers are listed by their label, in one namespace or in all, without a Lease that has no group", async () => {
  const queries: object[] = [];
  const list = (async (_resource: string, query: object) => {
    queries.push(query);
    return { items: [], resourceVersion: "1" };
  }) as unknown as Cluster["list"];
  for (const where of [namespace, undefined]) await listLedgerLeases({ list }, where);
  const labelSelector = "app.kubernetes.io/managed-by=sluice";
  assert.deepEqual(queries, [{ namespace, labelSelector }, { labelSelector }]);
  assert.deepEqual(groupKeyOfLease(leaseObject("sluice-group", annotations)), key);
  assert.equal(groupKeyOfLease(leaseObject("sluice-other", annotations)), undefined);
  assert.equal(groupKeyOfLease(leaseObject("sluice-undefined", {})), undefined, "it names no group");
  assert.equal(groupKeyOfLease(leaseObject("sluice-group", {})), undefined);
});
