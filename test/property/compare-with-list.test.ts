import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { compareWithList, isUnchanged, pathOf } from "../../functions/shared/cache/compare-with-list.ts";

interface Thing {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: number;
}

/** A write for each revision from 1 on: of an object, or its deletion. `lost`: the watch never delivers it. */
const write = fc.record({ name: fc.constantFrom("a", "b", "c"), deletes: fc.boolean(), lost: fc.boolean() });
const history = fc.array(write, { minLength: 1, maxLength: 12 }).chain((writes) => {
  const revision = fc.integer({ min: 0, max: writes.length });
  return fc.record({ writes: fc.constant(writes), reached: revision, listedAt: revision });
});

type Write = typeof write extends fc.Arbitrary<infer T> ? T : never;

/** The objects that exist after these writes. */
function stateOf(writes: readonly Write[], isDelivered: (one: Write) => boolean): Map<string, Thing> {
  const state = new Map<string, Thing>();
  for (const [index, one] of writes.entries()) {
    const thing = { namespace: "ns", name: one.name, resourceVersion: index + 1 };
    if (!isDelivered(one)) continue;
    if (one.deletes) state.delete(pathOf(thing));
    else state.set(pathOf(thing), thing);
  }
  return state;
}

const sorted = (state: ReadonlyMap<string, Thing>) => [...state.values()].sort((a, b) => a.name.localeCompare(b.name));

test("a newer list repairs what a watch has lost, and an older one undoes nothing that the watch has delivered", () => {
  let [runs, mended, older] = [0, 0, 0];
  fc.assert(
    fc.property(history, ({ writes, reached, listedAt }) => {
      runs++;
      const before = stateOf(writes.slice(0, reached), ({ lost }) => !lost);
      const list = stateOf(writes.slice(0, listedAt), () => true);
      const listed = [...list.values()];
      const names = new Set(listed.map(({ name }) => name));
      const moment = { listedAt, reached };
      const { put, remove } = compareWithList({
        byPath: before,
        known: [...before.values()],
        listed,
        names,
        ...moment,
      });
      const after = new Map(before);
      for (const one of put) after.set(pathOf(one), one);
      for (const one of remove) after.delete(pathOf(one));
      assert.equal(isUnchanged(after, after.size, listed), isDeepStrictEqual(sorted(after), sorted(list)));
      if (listedAt >= reached) {
        assert.deepEqual(sorted(after), sorted(list));
        if (put.length + remove.length > 0) mended++;
        return;
      }
      older++;
      for (const [path, { resourceVersion }] of after) {
        assert.ok(
          resourceVersion >= (before.get(path)?.resourceVersion ?? Number.POSITIVE_INFINITY),
          `${path} came back`,
        );
      }
      for (const [path, { resourceVersion }] of before) {
        assert.ok(after.has(path) || (resourceVersion <= listedAt && !list.has(path)), `${path} was taken away`);
      }
    }),
    { numRuns: 5_000 },
  );
  // A share, because the mutation run draws fewer.
  assert.ok(mended > runs / 10 && older > runs / 10, `${mended} and ${older} of ${runs}`);
});
