/** What is written is read back unchanged, and no text is read as more than it says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { rolloutMaxUnavailable, settledThrough } from "../../functions/shared/annotations/table.ts";
import type { Cluster, LeaseObject } from "../../functions/shared/kubernetes/cluster.ts";
import { type ClaimContent, type KnownClaim, makeClaim, parseClaims } from "../../functions/shared/ledger/claim.ts";
import { parseLedger } from "../../functions/shared/ledger/contents.ts";
import { LedgerUnreadable } from "../../functions/shared/ledger/errors.ts";
import { writeLedger } from "../../functions/shared/ledger/lease.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import type { LedgerChange, RecordedVerdict, Refusal, Reservation } from "../../functions/shared/ledger/reservation.ts";

const numRuns = 2_000;
const stampMs = fc.integer({ min: 0, max: 4_102_444_800_000 });
/** Any text that JSON can carry. Nothing in Kubernetes is called `__proto__`. */
const text = fc.string({ unit: "grapheme", maxLength: 20 }).filter((value) => value !== "__proto__");
/** `constructor` is a valid name, and every plain JavaScript object has a property of that name. */
const name = fc.oneof(fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/), fc.constant("constructor"));
const plain = { noNullPrototype: true };

const reservation: fc.Arbitrary<Reservation> = fc
  .record(
    { statefulSet: name, ordinal: fc.nat(2_000), uid: text, by: text, stampMs, renewedMs: fc.nat(100_000) },
    plain,
  )
  .map(({ renewedMs, ...made }) => (renewedMs % 2 === 0 ? made : { ...made, sinceMs: made.stampMs - renewedMs }));
const refusal: fc.Arbitrary<Refusal> = fc.record(
  { uid: text.filter((uid) => !uid.includes("/")), pod: text, message: text, stampMs, by: name },
  { ...plain, requiredKeys: ["uid", "pod", "message", "stampMs"] },
);
const recorded: fc.Arbitrary<RecordedVerdict> = fc.record(
  { guard: text, zone: text, sentence: text, since: stampMs, at: stampMs },
  plain,
);
const change: fc.Arbitrary<LedgerChange> = fc.record({
  reservations: fc.uniqueArray(reservation, {
    selector: ({ statefulSet, ordinal }) => `${statefulSet}-${ordinal}`,
    maxLength: 20,
  }),
  refusals: fc.uniqueArray(refusal, { selector: ({ uid }) => uid, maxLength: 10 }),
  verdicts: fc.dictionary(text, recorded, { maxKeys: 4, noNullPrototype: true }),
  seenThrough: fc.nat(),
  membersThrough: fc.nat(),
});

const key = { namespace: "db", group: "group" };

function leaseOf(annotations: Readonly<Record<string, string>>): LeaseObject {
  const metadata = { name: "sluice-group", namespace: "db", uid: "uid", resourceVersion: "1" };
  return { metadata: { ...metadata, annotations: { "sluice.dev/group": "group", ...annotations } } };
}

/** Sends a change through the real writer into a Lease that keeps the annotations as JSON would. */
async function through(change: LedgerChange) {
  const patch = async (_resource: string, _key: object, body: object): Promise<LeaseObject> => {
    const { metadata } = JSON.parse(JSON.stringify(body)) as LeaseObject;
    return leaseOf(metadata.annotations ?? {});
  };
  return writeLedger({ patch: patch as unknown } as Cluster, parseLedger(key, leaseOf({})), change);
}

const sorted = <T>(list: readonly T[]): string[] => list.map((entry) => JSON.stringify(entry)).sort();

test("a ledger is read as it was written", async () => {
  await fc.assert(
    fc.asyncProperty(change, async (wanted) => {
      const ledger = await through(wanted);
      assert.deepEqual(sorted(ledger.reservations), sorted(wanted.reservations));
      assert.deepEqual(sorted(ledger.refusals), sorted(wanted.refusals));
      assert.deepEqual(ledger.verdicts, wanted.verdicts);
      assert.equal(ledger.settledThrough, wanted.seenThrough);
    }),
    { numRuns },
  );
});

const anyText = fc.oneof(
  fc.string(),
  fc.json(),
  fc
    .dictionary(name, fc.dictionary(fc.oneof(fc.nat(9).map(String), fc.string()), fc.jsonValue()))
    .map((table) => JSON.stringify(table)),
);

test("any text in a ledger is read as a whole ledger or not at all, and never causes an exception", () => {
  fc.assert(
    fc.property(anyText, anyText, anyText, (reservations, refusals, verdicts) => {
      const annotations = {
        "sluice.dev/reservations": reservations,
        "sluice.dev/refusals": refusals,
        "sluice.dev/verdicts": verdicts,
      };
      try {
        const ledger = parseLedger(key, leaseOf(annotations));
        const zones = Object.values(JSON.parse(reservations) as Record<string, object>);
        const entries = zones.reduce((count, zone) => count + Object.keys(zone).length, 0);
        assert.equal(ledger.reservations.length, entries, "a reservation was dropped");
      } catch (error) {
        assert.ok(error instanceof LedgerUnreadable, String(error));
      }
    }),
    { numRuns },
  );
});

const modes = ["single", "rolling", "coordinated", "parked"] as const;
const ofProcess: fc.Arbitrary<ClaimContent> = fc
  .record(
    {
      mode: fc.constantFrom(...modes),
      processes: fc.dictionary(name, text, plain),
      sum: text,
      epoch: fc.nat(),
      hold: fc.boolean(),
    },
    { ...plain, requiredKeys: [] },
  )
  .map((own) => ({
    ...{ id: "one", kind: "process", zone: "a", members: [{ first: 0, last: 0 }], by: "function", stampMs: 1 },
    ...{ phase: "stopping", terms: "asked", anchor: { resource: "pods", name: "a-0", annotation: "a" }, ...own },
  }));

test("a claim of a process is read as it was written, whatever its own fields hold", () => {
  const unreadable = (why: string) => new LedgerUnreadable("sluice-group", why);
  fc.assert(
    fc.property(ofProcess, (content) => {
      const made = makeClaim(content);
      assert.deepEqual(parseClaims(made.line, unreadable), [made]);
    }),
    { numRuns },
  );
});

test("any values in the own fields of a claim of a process are read as they are, or make the ledger unreadable", () => {
  const unreadable = (why: string) => new LedgerUnreadable("sluice-group", why);
  const fields = ["mode", "processes", "sum", "epoch", "hold"] as const;
  const anyFields = fc.dictionary(
    fc.constantFrom(...fields),
    fc.oneof(fc.jsonValue(), text, fc.nat(), fc.boolean()),
    plain,
  );
  fc.assert(
    fc.property(ofProcess, anyFields, (content, odd) => {
      const line = JSON.stringify({ ...JSON.parse(makeClaim(content).line), ...odd });
      try {
        const [read] = parseClaims(line, unreadable) as KnownClaim[];
        for (const field of fields) assert.deepEqual(read?.[field], JSON.parse(line)[field]);
      } catch (error) {
        assert.ok(error instanceof LedgerUnreadable, String(error));
      }
    }),
    { numRuns },
  );
});

test("a ledger's name is a valid object name of its own for every group", () => {
  const names = new Map<string, string>();
  const group = fc.oneof(
    fc.string({ maxLength: 300 }),
    fc.stringMatching(/^[-a-zA-Z0-9_.]{0,63}$/),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(group, (given) => {
      const made = ledgerName(given);
      assert.match(made, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
      assert.ok(made.length <= 253);
      assert.equal(names.get(made) ?? given, given);
      names.set(made, given);
    }),
    { numRuns },
  );
});

const blank = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 });
const sign = fc.constantFrom("", "+");
const zeros = fc.string({ unit: fc.constant("0"), maxLength: 3 });

test("rollout-max-unavailable: a positive whole number means that many pods, whatever is around it", () => {
  fc.assert(
    fc.property(blank, sign, zeros, fc.integer({ min: 1 }), blank, (before, plus, padding, pods, after) => {
      assert.deepEqual(rolloutMaxUnavailable.parse(`${before}${plus}${padding}${pods}${after}`), { pods });
    }),
    { numRuns },
  );
});

test("rollout-max-unavailable: 1% to 100% mean that share, and any other percentage is invalid", () => {
  fc.assert(
    fc.property(blank, sign, fc.integer({ min: -200, max: 300 }), blank, (before, plus, percent, after) => {
      const expected = percent >= 1 && percent <= 100 ? { percent } : undefined;
      assert.deepEqual(rolloutMaxUnavailable.parse(`${before}${percent < 0 ? "" : plus}${percent}%${after}`), expected);
    }),
    { numRuns },
  );
});

test("rollout-max-unavailable: no text means none, all or a fraction", () => {
  const almost = fc.string({ unit: fc.constantFrom(..."0123456789+-% .e,x_"), maxLength: 8 });
  fc.assert(
    fc.property(fc.oneof(fc.string(), almost, fc.double().map(String)), (given) => {
      const allowance = rolloutMaxUnavailable.parse(given);
      if (allowance === undefined) return;
      const amount = "pods" in allowance ? allowance.pods : allowance.percent;
      assert.ok(Number.isSafeInteger(amount) && amount > 0);
      assert.equal(given.trim().replace("+", "").replace(/^0+/, ""), `${amount}${"pods" in allowance ? "" : "%"}`);
    }),
    { numRuns: 4 * numRuns },
  );
});

test("settled-through: exactly the safe whole numbers are revisions", () => {
  fc.assert(
    fc.property(fc.oneof(fc.maxSafeNat().map(String), fc.double().map(String), fc.string()), (given) => {
      const revision = settledThrough.parse(given);
      if (revision === undefined) assert.ok(!/^\d{1,15}$/.test(given), given);
      else assert.equal(given.replace(/^0+(?=\d)/, ""), String(revision));
    }),
    { numRuns },
  );
});
