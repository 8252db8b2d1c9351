/** The parts of a ledger whose size is not measured are so small that they cannot matter. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ledgerGroup } from "../../../../functions/shared/annotations/table.ts";
import { cut } from "../../../../functions/shared/base/truncate.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { fitting } from "../../../../functions/shared/ledger/lease.ts";
import { isFarBelowBound } from "../../../../functions/shared/ledger/size.ts";
import { leaseObject, nowMs, reservation } from "../../functions/advance-zone-rollout/given.ts";

const key = { namespace: "db", group: "store" };
const emptyLease = leaseObject("sluice-store", { [ledgerGroup.key]: key.group });
const verdict = { guard: "budget", zone: "a", since: nowMs, at: nowMs };

/** `count` reservations, refusals and verdicts, each refusal and verdict with a message of `length` times `character`. */
function changeOf(count: number, character: string, length: number) {
  const message = cut(character.repeat(length));
  const each = Array.from({ length: count }, (_, index) => index);
  return {
    reservations: each.map((ordinal) => reservation(`store-a-${ordinal}`)),
    seenThrough: 1,
    membersThrough: 1,
    members: ["store-a"],
    refusals: each.map((index) => ({ uid: `uid-${index}`, pod: `store-a-${index}`, message, stampMs: index })),
    verdicts: Object.fromEntries(
      each.map((index) => [`function-${index}`, { ...verdict, at: nowMs + index, sentence: message }]),
    ),
  };
}

test("nothing is dropped from a ledger that is far below its limit, however its characters are escaped in JSON", () => {
  const [ledger, found] = [parseLedger(key, emptyLease), { far: 0, near: 0 }];
  for (const character of ["x", "ä", "€", "😀", "\u0000", '"']) {
    for (let count = 0; count <= 16; count++) {
      for (const length of [1, 40, 250, 1024]) {
        const change = changeOf(count, character, length);
        const isFar = isFarBelowBound(ledger, change);
        found[isFar ? "far" : "near"]++;
        const { refusals, verdicts } = change;
        if (isFar) assert.deepEqual(fitting(ledger, change), { refusals, verdicts });
      }
    }
  }
  assert.ok(found.far > 60 && found.near > 40, JSON.stringify(found));
});

test("the existing annotations also count: those of others, and those that a change leaves as they are", () => {
  const change = changeOf(1, "x", 10);
  const ledger = parseLedger(key, emptyLease);
  assert.equal(isFarBelowBound(ledger, change), true);
  assert.equal(isFarBelowBound({ ...ledger, othersBytes: 190 * 1024 }, change), false);
  const zones = { ...ledger, members: Array.from({ length: 1_000 }, () => "m".repeat(60)) };
  assert.equal(isFarBelowBound(zones, change), false);
  assert.equal(
    isFarBelowBound(ledger, { ...change, members: zones.members }),
    false,
    "those that a change adds also count",
  );
});

test("a ledger is measured unless it has room of 4 KiB, and for each member 2, reservation 5 and message 13 KiB", () => {
  const { members: _, ...alone } = { ...changeOf(2, "x", 10), refusals: [] };
  const ledger = parseLedger(key, emptyLease);
  const isFarWith = (kibibytes: number, members?: readonly string[]) => {
    const room = (lessBytes: number) => ({ ...ledger, othersBytes: (192 - kibibytes) * 1024 - lessBytes });
    const change = members === undefined ? alone : { ...alone, members };
    return [isFarBelowBound(room(1), change), isFarBelowBound(room(0), change)];
  };
  assert.deepEqual(isFarWith(4 + 2 * 5 + 2 * 13), [true, false]);
  assert.deepEqual(isFarWith(4 + 3 * 2 + 2 * 5 + 2 * 13, ["a", "b", "c"]), [true, false]);
});

test("a ledger with an old or a new claim is measured, because a claim may have any length", () => {
  const change = changeOf(1, "x", 10);
  const ledger = parseLedger(key, emptyLease);
  const line = "x".repeat(100 * 1024);
  const claims = [{ isKnown: false, id: "x", zone: "a", kind: "later", by: "", line } as const];
  assert.equal(isFarBelowBound({ ...ledger, claims }, change), false);
  assert.equal(isFarBelowBound(ledger, { ...change, claims }), false);
});

test("the annotations of other clients do not count as small, however long their names are and whatever is in them", () => {
  const found = { far: 0, near: 0 };
  for (const character of ["x", "€", "\u0000"]) {
    for (const length of [1, 253, 55_000]) {
      for (const count of [1, 4, 8, 16]) {
        const each = Array.from({ length: Math.min(count, 200_000 / length) }, (_, index) => index);
        const [name, text] = [character.repeat(length), cut(character.repeat(1024))];
        const short = name.slice(0, 253);
        const refusals = each.map((index) => [`${index}${name}/${name}`, [short, text, nowMs, name]]);
        const verdicts = each.map((index) => {
          return [`${index}${name}`, { ...verdict, guard: short, zone: short, sentence: text, more: name }];
        });
        const annotations = {
          [ledgerGroup.key]: key.group,
          "sluice.dev/refusals": JSON.stringify(Object.fromEntries(refusals)),
          "sluice.dev/verdicts": JSON.stringify(Object.fromEntries(verdicts)),
        };
        const ledger = parseLedger(key, leaseObject("sluice-store", annotations));
        const informing = { refusals: ledger.refusals, verdicts: ledger.verdicts };
        const change = { ...changeOf(1, "x", 10), ...informing };
        const isFar = isFarBelowBound(ledger, change);
        found[isFar ? "far" : "near"]++;
        if (isFar)
          assert.deepEqual(fitting(ledger, change), informing, `${JSON.stringify(character)} ${length} ${count}`);
      }
    }
  }
  assert.ok(found.far > 5 && found.near > 5, JSON.stringify(found));
});
