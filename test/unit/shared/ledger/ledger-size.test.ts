/** A ledger stays far below the API server's limit, whatever other clients report or write. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { cut, maxMessageBytes } from "../../../../functions/shared/base/truncate.ts";
import { parseLedger } from "../../../../functions/shared/ledger/contents.ts";
import { LedgerFull } from "../../../../functions/shared/ledger/errors.ts";
import { fitting } from "../../../../functions/shared/ledger/lease.ts";
import { maxReservations } from "../../../../functions/shared/ledger/reservation.ts";
import { annotationBytes, maxLedgerBytes, shed } from "../../../../functions/shared/ledger/size.ts";
import { leaseObject, namespace, nowMs, reservation } from "../../functions/advance-zone-rollout/given.ts";

const verdict = { guard: "budget", zone: "a", sentence: "one of three is down", since: nowMs, at: nowMs };
const refusals = (count: number, message = "no") =>
  Array.from({ length: count }, (_, index) => ({ uid: `u-${index}`, pod: `a-${index}`, message, stampMs: index }));
/** Size of an object's entries in JSON: without the braces, and with a comma for each, it is one byte less. */
const jsonBytes = (entries: object): number => Buffer.byteLength(JSON.stringify(entries));

describe("sizes", () => {
  test("a message is shortened by its bytes, never in the middle of a character, and ends with an ellipsis", () => {
    assert.equal(cut("short"), "short");
    assert.equal(cut("x".repeat(maxMessageBytes)), "x".repeat(maxMessageBytes));
    assert.equal(cut("abcdefgh", 7), "abcd…");
    for (const character of ["x", "ä", "€", "😀"]) {
      for (let maxBytes = 3; maxBytes < 20; maxBytes++) {
        const short = cut(character.repeat(30), maxBytes);
        assert.ok(Buffer.byteLength(short) <= maxBytes && short.endsWith("…"), short);
        assert.equal(short.replaceAll(character, ""), "…");
        assert.ok(Buffer.byteLength(short) + Buffer.byteLength(character) > maxBytes, "no more than needed");
        assert.equal(cut(short, maxBytes), short);
      }
    }
  });

  test("keys and values of annotations count in bytes", () => {
    assert.equal(annotationBytes({ a: "1", ä: "€" }), 1 + 1 + 2 + 3);
    assert.equal(annotationBytes(undefined), 0);
  });

  test("refusals are dropped first, the oldest of them first; then messages, then verdicts", () => {
    const verdicts = { old: { ...verdict, at: 1 }, recent: { ...verdict, at: 2 } };
    const all = { refusals: refusals(10, "x".repeat(100)), verdicts };
    assert.deepEqual(shed(all, 10_000), all);
    const some = shed(all, 1_000);
    assert.deepEqual([some.refusals.at(-1)?.uid, some.verdicts], ["u-9", verdicts]);
    assert.ok(some.refusals.length > 2 && some.refusals.length < 10);
    assert.deepEqual(some.refusals, all.refusals.slice(-some.refusals.length));
    assert.deepEqual(shed(some, 1_000), some, "a second time drops nothing more");
    const both = Buffer.byteLength(JSON.stringify(verdicts)) - 2;
    const silent = shed(all, both);
    assert.deepEqual(silent.refusals, []);
    assert.deepEqual([silent.verdicts.old?.sentence, silent.verdicts.recent?.sentence], ["", verdict.sentence]);
    assert.deepEqual(Object.keys(shed(all, both / 2).verdicts), ["recent"]);
    assert.deepEqual(shed(all, -5), { refusals: [], verdicts: {} });
  });

  test("the entry that was reported first is dropped first, in whatever order they are listed", () => {
    const verdicts = { recent: { ...verdict, at: 2 }, old: { ...verdict, at: 1 }, middle: { ...verdict, at: 1.5 } };
    const room = jsonBytes(verdicts) - 1 - 2 * verdict.sentence.length;
    const { verdicts: left } = shed({ refusals: [], verdicts }, room);
    assert.deepEqual([left.recent, left.middle?.sentence, left.old?.sentence], [verdicts.recent, "", ""]);
    assert.deepEqual(Object.keys(shed({ refusals: [], verdicts }, jsonBytes({ recent: verdict })).verdicts), [
      "recent",
    ]);
  });

  test("entries that fit to the byte stay whole, and if one byte is missing only one is dropped", () => {
    const verdicts = { one: { ...verdict, at: 1 }, two: { ...verdict, at: 2 } };
    const all = { refusals: refusals(3), verdicts };
    const byUid = Object.fromEntries(all.refusals.map((refusal) => [refusal.uid, refusal]));
    const ofVerdicts = jsonBytes(verdicts) - 1;
    const whole = ofVerdicts + jsonBytes(byUid) - 1;
    assert.deepEqual(shed(all, whole), all);
    assert.deepEqual(shed(all, whole - 1), { refusals: all.refusals.slice(1), verdicts });
    assert.deepEqual(shed(all, ofVerdicts), { refusals: [], verdicts });
    const silent = { one: { ...verdicts.one, sentence: "" }, two: verdicts.two };
    assert.deepEqual(shed(all, ofVerdicts - 1), { refusals: [], verdicts: silent });
    const mute = { one: silent.one, two: { ...verdicts.two, sentence: "" } };
    assert.deepEqual(shed(all, jsonBytes(mute) - 1), { refusals: [], verdicts: mute });
    assert.deepEqual(shed(all, jsonBytes(mute) - 2), { refusals: [], verdicts: { two: mute.two } });
  });

  const key = { namespace, group: "group" };
  const ledgerOf = (annotations: Readonly<Record<string, string>>) =>
    parseLedger(key, leaseObject("sluice-group", { "sluice.dev/group": "group", ...annotations }));
  const change = {
    reservations: [reservation("a-0")],
    seenThrough: 1,
    membersThrough: 1,
    refusals: refusals(2),
    verdicts: { f: verdict },
  };

  test("annotations of others count as well, and only refusals and verdicts are dropped for them", () => {
    const own = { "sluice.dev/refusals": "x".repeat(100_000), "sluice.dev/verdicts": "x".repeat(100_000) };
    assert.deepEqual(
      fitting(ledgerOf(own), change).refusals.length,
      2,
      "the annotations that the write replaces do not count",
    );
    const { refusals: left, verdicts } = fitting(ledgerOf({ theirs: "x".repeat(maxLedgerBytes - 280) }), change);
    assert.deepEqual([left, verdicts], [[], {}]);
  });

  test("reservations are never dropped for space: a new one that does not fit is refused, and one can always be removed", () => {
    const two = [reservation("a-0"), reservation("a-1")];
    const full = ledgerOf({ theirs: "x".repeat(maxLedgerBytes) });
    assert.throws(
      () => fitting(full, { ...change, reservations: two }),
      (error) => {
        assert.ok(error instanceof LedgerFull);
        assert.match(
          error.message,
          /^Lease sluice-group has room for 196608 bytes .* other annotations take 1966\d\d\. Remove/,
        );
        return true;
      },
    );
    const holding = { ...full, reservations: two };
    assert.deepEqual(fitting(holding, { ...change, reservations: two }).refusals, []);
    assert.deepEqual(fitting(holding, { ...change, reservations: [] }).verdicts, {});
  });

  test("reservations may fill a ledger to the byte, and the names of the zones count", () => {
    const none = { ...change, refusals: [], verdicts: {} };
    const largest = String(Number.MAX_SAFE_INTEGER);
    for (const members of [[], ["a"], ["a", "x".repeat(200)]]) {
      const { uid, by, stampMs } = reservation("a-0");
      const bytes = annotationBytes({
        "sluice.dev/format": "1",
        "sluice.dev/settled-through": largest,
        "sluice.dev/members-through": largest,
        "sluice.dev/members": JSON.stringify(members),
        "sluice.dev/reservations": JSON.stringify({ a: { 0: [uid, by, stampMs] } }),
        "sluice.dev/refusals": "{}",
        "sluice.dev/verdicts": "{}",
      });
      const full = { ...ledgerOf({}), othersBytes: maxLedgerBytes - bytes };
      const over = { ...full, othersBytes: full.othersBytes + 1 };
      for (const [ledger, made] of [
        [full, { ...none, members }],
        [
          { ...full, members: ["a", "x".repeat(300)] },
          { ...none, members },
        ],
        [{ ...full, members }, none],
      ] as const) {
        assert.deepEqual(fitting(ledger, made), { refusals: [], verdicts: {} });
        const tooMuch = { ...over, ...(ledger.members === undefined ? {} : { members: ledger.members }) };
        assert.throws(() => fitting(tooMuch, made), { name: "LedgerFull" });
      }
    }
  });

  test("a thousand reservations fit beside messages", () => {
    const many = Array.from({ length: maxReservations }, (_, index) => reservation(`ingester-zone-a-${index}`));
    const kept = fitting(ledgerOf({}), { ...change, reservations: many, refusals: refusals(40, "x".repeat(1_000)) });
    assert.deepEqual([kept.refusals.length, Object.keys(kept.verdicts)], [40, ["f"]]);
  });

  test("a ledger with too many reservations, or with a name that is too long, is unreadable, so that no function reads it all", () => {
    const entry = ["u", "f", 1];
    const many = Object.fromEntries(Array.from({ length: maxReservations + 1 }, (_, index) => [index, entry]));
    const giants = [
      { a: many },
      { a: { 0: ["u".repeat(254), "f", 1] } },
      { a: { 0: ["u", "f".repeat(254), 1] } },
      { ["a".repeat(250_000)]: { 0: entry } },
      { a: { ["9".repeat(1_000)]: entry } },
    ];
    for (const reservations of giants) {
      assert.throws(
        () => ledgerOf({ "sluice.dev/reservations": JSON.stringify(reservations) }),
        (error: Error) => error.name === "LedgerUnreadable" && error.message.length < 1_500,
      );
    }
    assert.equal(
      ledgerOf({ "sluice.dev/reservations": JSON.stringify({ a: { ...many, 0: undefined } }) }).reservations.length,
      1_000,
    );
  });

  test("of the refusals and verdicts that a user writes, only texts within the limits are read", () => {
    const long = "x".repeat(100_000);
    const ledger = ledgerOf({
      "sluice.dev/refusals": JSON.stringify({ u: ["a-0", long, 1], v: [long, "no", 1] }),
      "sluice.dev/verdicts": JSON.stringify({ f: { ...verdict, sentence: long }, g: { ...verdict, guard: long } }),
    });
    assert.deepEqual(
      ledger.refusals.map(({ pod, message }) => [pod, Buffer.byteLength(message)]),
      [["a-0", 1024]],
    );
    assert.deepEqual(Object.keys(ledger.verdicts), ["f"]);
    const names = [253, 254].map((length) => "n".repeat(length));
    const refused = names.flatMap((name) => [
      [name, ["a-0", "no", 1]],
      [`u/${name}`, ["a-0", "no", 1, name]],
      [`${name}/f`, ["a-0", "no", 1, "f"]],
    ]);
    assert.deepEqual(
      ledgerOf({ "sluice.dev/refusals": JSON.stringify(Object.fromEntries(refused)) }).refusals.map(({ uid, by }) => [
        uid.length,
        by?.length,
      ]),
      [
        [253, undefined],
        [1, 253],
        [253, 1],
      ],
      "a name is at most as long as those of the API server",
    );
    assert.equal(Buffer.byteLength(ledger.verdicts.f?.sentence ?? ""), 1024);
  });
});
