/** Claims in a ledger: how Sluice reads them, which it refuses, and that no function changes the claims of others. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import {
  type ClaimContent,
  changeClaim,
  claimsBy,
  countRanges,
  describeMembers,
  isNamedBy,
  type KnownClaim,
  leastNumber,
  madeBy,
  makeClaim,
  namesOrdinal,
  parseClaims,
} from "../../../../functions/shared/ledger/claim.ts";
import { describeClaim } from "../../../../functions/shared/ledger/claim-kinds.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { LedgerFull, LedgerUnreadable, LedgerUnwritable } from "../../../../functions/shared/ledger/errors.ts";
import { fitting, writeLedger } from "../../../../functions/shared/ledger/lease.ts";
import {
  type LedgerChange,
  maxReservations,
  type StoredLedger,
} from "../../../../functions/shared/ledger/reservation.ts";
import { maxLedgerBytes } from "../../../../functions/shared/ledger/size.ts";
import { inspectClaim } from "../../../../triggers/plugin/claims.ts";
import { leaseObject, namespace, nowMs, reservation } from "../../functions/advance-zone-rollout/given.ts";

const key = { namespace, group: "group" };
const none: LedgerChange = { reservations: [], refusals: [], verdicts: {}, seenThrough: 0, membersThrough: 0 };

const content: ClaimContent = {
  id: "one",
  kind: "scale-down",
  zone: "a",
  members: [
    { first: 3, last: 5 },
    { first: 7, last: 7 },
  ],
  by: "prepare-downscale",
  stampMs: nowMs,
  phase: "preparing",
  terms: "asked",
};

const anchor = { resource: "pods", name: "a-3", annotation: "example.dev/phase" };

function ledgerOf(annotations: Readonly<Record<string, string>>): StoredLedger {
  return parseLedger(key, leaseObject("sluice-group", { "sluice.dev/group": "group", ...annotations }));
}

const claimsOf = (...lines: readonly (object | string)[]) => {
  const texts = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)));
  return ledgerOf({ "sluice.dev/claims": texts.join("\n") }).claims;
};

/** The annotations of the patch that a write sends. */
async function sent(ledger: StoredLedger, change: Partial<LedgerChange>): Promise<Record<string, string>> {
  let annotations: Record<string, string> = {};
  const patch = async (_resource: string, _key: object, body: { metadata: { annotations: typeof annotations } }) => {
    annotations = body.metadata.annotations;
    return leaseObject(ledger.name, { "sluice.dev/group": "group", ...annotations });
  };
  const cluster = { patch: patch as unknown as Cluster["patch"] } as Cluster;
  await writeLedger(cluster, ledger, { ...none, ...change });
  return annotations;
}

const stated = { ...content, members: "3-5,7" };

describe("the format of a ledger", () => {
  test("ledger-unreadable: a ledger of another format is neither read nor overwritten, and the message does not advise deletion", () => {
    for (const format of ["2", "", "1.0", " 1", "x".repeat(1_000)]) {
      assert.throws(
        () => ledgerOf({ "sluice.dev/format": format }),
        (error: unknown) =>
          error instanceof LedgerUnreadable &&
          error.message.length < 400 &&
          /knows 1 alone\. A later version of Sluice wrote it: run that version, and leave the Lease/.test(
            error.message,
          ),
        JSON.stringify(format),
      );
    }
  });

  test("a ledger without a format has the first one, and the next write records it", async () => {
    const annotations = await sent(ledgerOf({}), {});
    assert.equal(annotations["sluice.dev/format"], "1");
    assert.deepEqual(ledgerOf({ ...annotations }).reservations, []);
  });
});

describe("claims are read strictly", () => {
  test("all fields of a claim are read, whatever its id is", () => {
    const [claim] = claimsOf({
      ...stated,
      sinceMs: nowMs - 9,
      uids: { a: "uid-of-a" },
      readyMs: { "a-3": 7 },
      anchor,
    }) as KnownClaim[];
    const { line, ...read } = claim as KnownClaim;
    assert.deepEqual(read, {
      ...content,
      isKnown: true,
      sinceMs: nowMs - 9,
      uids: { a: "uid-of-a" },
      readyMs: { "a-3": 7 },
      anchor,
    });
    assert.equal(JSON.parse(line).id, "one");
  });

  test("a claim may have the longest names, the first ordinal, the earliest times, and an anchor in another namespace", () => {
    const longest = "x".repeat(253);
    const most = { ...stated, id: longest, zone: longest, by: longest, phase: longest, stampMs: 0, sinceMs: 0 };
    const [claim] = claimsOf({ ...most, members: "0", anchor: { ...anchor, namespace: "other" } }) as KnownClaim[];
    const { line: _, ...read } = claim as KnownClaim;
    assert.deepEqual(read, {
      ...most,
      members: [{ first: 0, last: 0 }],
      anchor: { ...anchor, namespace: "other" },
      isKnown: true,
    });
  });

  test("a text without lines has no claims, and empty lines, as kubectl edit leaves them, are ignored", () => {
    for (const text of ["", "\n", " \n\n"]) assert.deepEqual(claimsOf(text), []);
    assert.equal(claimsOf(stated, "", { ...stated, id: "two" }, "").length, 2);
  });

  const malformed: readonly (readonly [string, unknown])[] = [
    ["no JSON", "{"],
    ["a list", "[]"],
    ["null", "null"],
    ["no id", { ...stated, id: undefined }],
    ["an empty id", { ...stated, id: "" }],
    ["an id that is longer than any name", { ...stated, id: "x".repeat(254) }],
    ["no kind", { ...stated, kind: undefined }],
    ["no zone", { ...stated, zone: undefined }],
    ["a zone that is a number", { ...stated, zone: 1 }],
    ["no members", { ...stated, members: undefined }],
    ["empty members", { ...stated, members: "" }],
    ["members that are a list", { ...stated, members: [1] }],
    ["members that are no numbers", { ...stated, members: "a" }],
    ["members that overlap", { ...stated, members: "1-3,3" }],
    ["members that go down", { ...stated, members: "4,1" }],
    ["a range that goes down", { ...stated, members: "4-1" }],
    ["a range of three", { ...stated, members: "1-2-3" }],
    ["a range without an end", { ...stated, members: "1-" }],
    ["members beyond int32", { ...stated, members: "0-2147483648" }],
    ["no function whose it is", { ...stated, by: undefined }],
    ["no stamp", { ...stated, stampMs: undefined }],
    ["a stamp that is text", { ...stated, stampMs: "1" }],
    ["a stamp before all time", { ...stated, stampMs: -1 }],
    ["a stamp after all time", { ...stated, stampMs: 8.64e15 + 1 }],
    ["a beginning after all time", { ...stated, sinceMs: Number.MAX_SAFE_INTEGER }],
    ["a since that is no time", { ...stated, sinceMs: 1.5 }],
    ["times of readiness that are no times", { ...stated, readyMs: { "a-3": "now" } }],
    ["no phase", { ...stated, phase: undefined }],
    ["other terms", { ...stated, terms: "demanded" }],
    ["uids that are a list", { ...stated, uids: ["u"] }],
    ["a uid that is a number", { ...stated, uids: { a: 1 } }],
    ["uids of which one is a number", { ...stated, uids: { a: "uid-of-a", b: 1 } }],
    ["a uid of nothing", { ...stated, uids: { "": "uid-of-a" } }],
    ["an anchor without a resource", { ...stated, anchor: { name: "a-3", annotation: "x" } }],
    ["an anchor without a name", { ...stated, anchor: { resource: "pods", annotation: "x" } }],
    ["an anchor without an annotation", { ...stated, anchor: { resource: "pods", name: "a-3" } }],
    ["an anchor in a namespace that is a number", { ...stated, anchor: { ...anchor, namespace: 1 } }],
    ["a process that has no anchor", { ...stated, kind: "process" }],
    ["a volume that has no anchor", { ...stated, kind: "volume" }],
    ["a node that has no anchor", { ...stated, kind: "node" }],
    ["an unknown kind without a zone", { id: "x", kind: "later" }],
  ];
  for (const [what, line] of malformed) {
    test(`ledger-unreadable: a claim with ${what} makes the ledger unreadable, and does not count as no claim`, () => {
      assert.throws(() => claimsOf(line as object), LedgerUnreadable);
    });
  }

  test("any claim that can be read can be reported, in messages and by the plugin", () => {
    for (const stampMs of [0, nowMs, 8.64e15]) {
      const [claim] = ledgerOf({ "sluice.dev/claims": makeClaim({ ...content, stampMs }).line }).claims;
      assert.ok(claim !== undefined);
      assert.match(describeClaim(claim), /since [-+]?\d+-/);
      assert.equal(inspectClaim(claim).at, new Date(stampMs).toISOString());
    }
  });

  test("the message about a claim of a thousand ranges is short enough for a user", () => {
    const members = Array.from({ length: 1_000 }, (_, index) => ({ first: 10 * index, last: 10 * index + 5 }));
    const described = describeClaim(makeClaim({ ...content, members }));
    assert.match(described, /^a: 0-5,10-15,.*… claimed for a scale-down \(preparing\) by prepare-downscale, since /);
    assert.ok(described.length < 300, `${described.length} characters`);
  });

  test("two claims with one id are unreadable, because an anchor would not tell them apart", () => {
    assert.throws(() => claimsOf(stated, stated), /two of its claims have the same id/);
  });

  test("a claim of an unknown kind is read with its id, its kind and its zone, whatever else it has", () => {
    const line = '{"id":"x", "kind":"later","zone":"b","members":{"all":true},"by":"rotate-tapes"}';
    const [claim] = claimsOf(line);
    assert.deepEqual(claim, { id: "x", kind: "later", zone: "b", by: "rotate-tapes", isKnown: false, line });
    for (const ordinal of [0, 7, 2 ** 31 - 1]) assert.ok(namesOrdinal(claim as never, ordinal));
    for (const by of [undefined, 1, "x".repeat(254)]) {
      assert.equal(claimsOf({ ...JSON.parse(line), by })[0]?.by, "", "it does not name its function");
    }
  });

  test("a claim names the ordinals of its members, and no others", () => {
    const claim = makeClaim(content);
    const named = Array.from({ length: 10 }, (_, ordinal) => ordinal).filter((ordinal) => namesOrdinal(claim, ordinal));
    assert.deepEqual(named, [3, 4, 5, 7]);
  });

  test("a range counts once against the limit, and reservations count in addition (R2)", () => {
    const all = makeClaim({ ...content, members: [{ first: 0, last: 2 ** 31 - 1 }] });
    assert.equal(countRanges([all, makeClaim({ ...content, id: "two" })]), 3);
    const ordinals = Array.from({ length: maxReservations - 2 }, (_, index) => [index, ["u", "f", 1]]);
    const reservations = JSON.stringify({ b: Object.fromEntries(ordinals) });
    const contents = { "sluice.dev/reservations": reservations };
    assert.equal(ledgerOf({ ...contents, "sluice.dev/claims": makeClaim(content).line }).claims.length, 1);
    const lines = [makeClaim(content).line, JSON.stringify({ id: "x", kind: "later", zone: "b" })].join("\n");
    assert.throws(
      () => ledgerOf({ ...contents, "sluice.dev/claims": lines }),
      /it holds 1001 reservations and ranges of claims, and 1000 at most/,
    );
  });
});

describe("claims are written back as they were", () => {
  const odd = '{ "kind": "later","id":"x","zone":"b","n":1e400,"big":9007199254740993,"k":"\\u0041","10":1,"9":2 }';
  const more = `{"later":{"n":9007199254740993.0},${JSON.stringify(stated).slice(1)}`;

  test("a write that changes no claim leaves all of them as they are, byte for byte", async () => {
    const ledger = ledgerOf({ "sluice.dev/claims": `${odd}\n${more}` });
    assert.ok(!("sluice.dev/claims" in (await sent(ledger, { reservations: [reservation("b-0")] }))));
  });

  test("a function that makes a claim writes all others back byte for byte, including unknown kinds and fields", async () => {
    const ledger = ledgerOf({ "sluice.dev/claims": `${odd}\n\n${more}` });
    const made = makeClaim({ ...content, id: "mine" });
    const annotations = await sent(ledger, { claims: [...ledger.claims, made] });
    assert.equal(annotations["sluice.dev/claims"], `${odd}\n${more}\n${made.line}`);
  });

  test("a claim that its own function changes keeps the fields of a later version, with its numbers as they are written", () => {
    const [claim] = claimsOf(more) as KnownClaim[];
    const changed = changeClaim(claim as KnownClaim, {
      phase: "confirmed",
      stampMs: nowMs + 1,
      members: [{ first: 4, last: 4 }],
    });
    assert.match(changed.line, /"later":\{"n":9007199254740993\.0\}/);
    const [read] = claimsOf(changed.line) as KnownClaim[];
    assert.deepEqual(read, changed);
    assert.deepEqual([read?.phase, read?.stampMs, read?.members], ["confirmed", nowMs + 1, [{ first: 4, last: 4 }]]);
    assert.equal(read?.by, content.by);
  });

  test("a claim is written with its ordinals in the short form of messages, and read back unchanged", () => {
    const made = makeClaim({ ...content, uids: { "a-3": "uid-of-a-3" }, readyMs: { "a-3": 0 }, anchor });
    assert.equal(JSON.parse(made.line).members, "3-5,7");
    assert.deepEqual(claimsOf(made.line), [made]);
    assert.deepEqual(claimsOf(makeClaim(content).line), [makeClaim(content)], "what it does not have is not there");
  });

  test("when the last claim is removed, the ledger has no claims", async () => {
    const ledger = ledgerOf({ "sluice.dev/claims": more });
    const annotations = await sent(ledger, { claims: [] });
    assert.deepEqual(ledgerOf(annotations).claims, []);
  });

  test("a claim that could not be read back is not written, and nothing is sent", async () => {
    const made = makeClaim(content);
    const wrong = [
      makeClaim({ ...content, phase: "" }),
      makeClaim({ ...content, members: [] }),
      makeClaim({ ...content, kind: "process" }),
      { ...made, line: `${made.line}\n${makeClaim({ ...content, id: "two" }).line}` },
      { ...made, line: "" },
      { ...made, id: "two" },
    ];
    for (const claim of wrong) {
      await assert.rejects(sent(ledgerOf({}), { claims: [claim] }), LedgerUnwritable, claim.line);
    }
    await assert.rejects(sent(ledgerOf({}), { claims: [made, made] }), /the same id/);
  });

  test("claims are never dropped for space: a new one that does not fit is refused, and a claim can always be removed", () => {
    const long = makeClaim({ ...content, uids: Object.fromEntries([["x".repeat(250), "y".repeat(250)]]) });
    const full = { ...ledgerOf({}), othersBytes: maxLedgerBytes - 300 };
    assert.throws(() => fitting(full, { ...none, claims: [long] }), LedgerFull);
    const holding = { ...full, claims: [long] };
    const refusals = [{ uid: "u", pod: "a-1", message: "no", stampMs: nowMs }];
    assert.deepEqual(fitting(holding, { ...none, refusals }), { refusals: [], verdicts: {} });
    assert.deepEqual(fitting(holding, { ...none, claims: [] }).refusals, []);
  });
});

test("a claim is its function's by the name that stands on it, and is found by its kind as well", () => {
  const own = makeClaim({ ...content, anchor });
  const others = [
    makeClaim({ ...content, id: "two", by: "fence-node", anchor }),
    makeClaim({ ...content, id: "three", kind: "node", anchor }),
    ...claimsOf({ id: "four", kind: "later", zone: "a", by: content.by }),
  ];
  assert.deepEqual(claimsBy([own, ...others], content.kind, content.by), [own]);
  assert.deepEqual(
    [own, ...others].filter(madeBy(content.by)).map(({ id }) => id),
    ["one", "three"],
    "what a claim of an unknown kind is for is not known",
  );
});

test("an anchor names the claim of its text, and each that begins with it and a slash; no text names none", () => {
  const named = (text: string | undefined, id = "restart-1/a") => isNamedBy({ id }, text);
  assert.deepEqual(
    [named("restart-1/a"), named("restart-1"), named("restart-1/a/b"), named("restart")],
    [true, true, false, false],
  );
  assert.deepEqual(
    [named(undefined), named(""), named("", "/a"), named(undefined, "undefined/a")],
    [false, false, false, false],
  );
});

test("members with numbers of Sluice's own are reported by name, and others by ordinal", () => {
  const uids = { "db-cluster-1": "uid" };
  const at = (...firsts: number[]) => ({ members: firsts.map((first) => ({ first, last: first })) });
  assert.equal(describeMembers({ ...at(leastNumber), uids }), "db-cluster-1");
  assert.equal(describeMembers({ ...at(0), uids }), "0");
  assert.equal(describeMembers({ ...at(0, leastNumber), uids }), `0,${leastNumber}`);
  assert.equal(describeMembers(at(leastNumber)), `${leastNumber}`, "without names");
});

test("the URL at which pods were told is read back, and a claim with another form of it is unreadable", () => {
  const toldAt = { scheme: "https", port: 8080, path: "/leave", service: "db" } as const;
  const { line } = makeClaim({ ...content, toldAt });
  const read = (at: unknown) =>
    parseClaims(
      JSON.stringify({ ...JSON.parse(line), toldAt: at }),
      (why) => new LedgerUnreadable("sluice-group", why),
    );
  assert.deepEqual((read(toldAt)[0] as KnownClaim).toldAt, toldAt);
  for (const wrong of [
    { scheme: "ftp" },
    { port: "8080" },
    { port: 0 },
    { path: 7 },
    { path: "leave" },
    { service: "" },
  ])
    assert.throws(() => read({ ...toldAt, ...wrong }), LedgerUnreadable, JSON.stringify(wrong));
  for (const wrong of [null, "https", []]) assert.throws(() => read(wrong), LedgerUnreadable);
});
