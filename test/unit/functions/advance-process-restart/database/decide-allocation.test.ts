/** What is written into the settings of a database, and what undoes it, by table. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Allocation,
  decideRelease,
  decideRestriction,
  formatMarker,
  parseMarker,
  readAllocation,
} from "../../../../../functions/advance-process-restart/database/decide-allocation.ts";
import { allocationKey, markerKey } from "../../../../support/stand-in-database.ts";

/** Settings such as `none r1;previous=all`: the value, or `-`, and the marker. */
function settings(text: string): Allocation {
  const [value, marker] = text.split(" ");
  return { value: value === "-" ? undefined : value, marker: marker === undefined ? undefined : parseMarker(marker) };
}

const change = (value: string | null, marker: string | null) => ({ [allocationKey]: value, [markerKey]: marker });

/** The settings after a request; those of before if there is none. */
function apply({ value, marker }: Allocation, changes: ReturnType<typeof decideRelease>): Allocation {
  const read = { ...(value && { [allocationKey]: value }), ...(marker && { [markerKey]: formatMarker(marker) }) };
  const after = Object.entries({ ...read, ...changes }).filter(([, one]) => one !== null);
  return readAllocation({ persistent: Object.fromEntries(after) }) ?? assert.fail("unreadable");
}

test("a restriction notes what the user had, and never what Sluice has written", () => {
  const cases: readonly (readonly [string, string | undefined])[] = [
    ["-", "r1;previous="],
    ["all", "r1;previous=all"],
    ["none", "r1;previous=none"],
    // The user's own, because no marker stands.
    ["primaries", "r1;previous=primaries"],
    ["primaries r1;previous=all", undefined],
    ["new_primaries r1;previous=all", undefined],
    ["- r1;previous=all", undefined],
    // Left by another restart: its value is not the user's.
    ["primaries r0;previous=all", "r1;previous=all"],
    ["primaries r0;previous=", "r1;previous="],
    // The user has changed it since.
    ["new_primaries r0;previous=all", "r1;previous=new_primaries"],
    ["- r0;previous=all", "r1;previous="],
    ["primaries r10;previous=all", "r1;previous=all"],
  ];
  for (const [before, marker] of cases) {
    const expected = marker === undefined ? undefined : change("primaries", marker);
    assert.deepEqual(decideRestriction(settings(before), "r1"), expected, before);
  }
});

test("a release brings the earlier value back, or keeps what the user has set since, and only where its marker stands", () => {
  const cases: readonly (readonly [string, ReturnType<typeof change> | undefined])[] = [
    ["-", undefined],
    ["primaries", undefined],
    ["primaries r0;previous=all", undefined],
    ["primaries r10;previous=all", undefined],
    ["primaries r1;previous=all", change("all", null)],
    ["primaries r1;previous=", change(null, null)],
    ["primaries r1;previous=primaries", change("primaries", null)],
    ["new_primaries r1;previous=all", change("new_primaries", null)],
    ["all r1;previous=none", change("all", null)],
    ["- r1;previous=none", change(null, null)],
  ];
  for (const [before, expected] of cases) assert.deepEqual(decideRelease(settings(before), "r1"), expected, before);
});

test("whatever the user sets before, during or after a restart stands at its end", () => {
  const values = [undefined, "all", "none", "new_primaries", "primaries"];
  for (const before of values) {
    for (const during of ["as it is", ...values]) {
      // A left-over, the next restart, and the end of that.
      const left = apply(
        { value: before, marker: undefined },
        decideRestriction({ value: before, marker: undefined }, "r0"),
      );
      const changed = during === "as it is" ? left : { ...left, value: during };
      const restricted = apply(changed, decideRestriction(changed, "r1"));
      const end = apply(restricted, decideRelease(restricted, "r1"));
      // The user's `primaries` cannot be told from ours.
      const isUsers = during !== "as it is" && during !== "primaries";
      assert.deepEqual(end, { value: isUsers ? during : before, marker: undefined }, `${before}, then ${during}`);
    }
  }
});

test("a request that the database carries out again during the next restart leaves it neither restricted nor with a marker", () => {
  const values = [undefined, "all", "none", "new_primaries"];
  for (const before of values) {
    for (const during of values) {
      const begun = decideRestriction({ value: before, marker: undefined }, "r1");
      const changed = { ...apply({ value: before, marker: undefined }, begun), value: during };
      const ended = decideRelease(changed, "r1");
      const free = apply(changed, ended);
      const next = apply(free, decideRestriction(free, "r2"));
      for (const late of [begun, ended]) {
        const disturbed = apply(next, late);
        const end = ["r2", "r1"].reduce((now, id) => apply(now, decideRelease(now, id)), disturbed);
        assert.equal(end.marker, undefined);
        assert.ok(end.value === before || end.value === during, `${before}, ${during}: ${end.value}`);
      }
    }
  }
});

test("a marker that Sluice has not written, and a document without settings, are unknown", () => {
  assert.deepEqual(readAllocation({ persistent: {}, transient: {} }), { value: undefined, marker: undefined });
  const both = { [allocationKey]: "primaries", [markerKey]: "r1;previous=new_primaries" };
  assert.deepEqual(readAllocation({ persistent: both }), {
    value: "primaries",
    marker: { id: "r1", previous: "new_primaries" },
  });
  for (const text of ["", "r1", ";previous=all", 7])
    assert.equal(readAllocation({ persistent: { [markerKey]: text } }), undefined);
  for (const odd of [undefined, null, [], {}, { persistent: [] }, { persistent: { [allocationKey]: 1 } }])
    assert.equal(readAllocation(odd), undefined);
});

test("a marker is read as it was written, however short its parts are", () => {
  for (const marker of [
    { id: "r", previous: "all" },
    { id: "restart-1", previous: undefined },
  ])
    assert.deepEqual(parseMarker(formatMarker(marker)), marker);
  assert.equal(parseMarker(";previous=all"), undefined);
});
