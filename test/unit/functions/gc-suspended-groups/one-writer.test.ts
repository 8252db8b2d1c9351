/**
 * Only one function writes what a volume claim waits for: if both reconcile in turn, and no other client acts, the writes end.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { reporterOf } from "../../../../functions/shared/suspension/message-reporter.ts";
import { Suspended } from "../../../support/suspended.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { top, Volumes, volumes } from "../../shared/suspension/volumes.ts";

type Texts = Readonly<Record<string, string | null>>;

/** Progress of the suspension of the top pod. */
const states: Readonly<Record<string, (on: Volumes) => Promise<void>>> = {
  asked: async (on) => on.ask(top),
  async Suspending(on) {
    on.ask(top);
    await on.until(
      () => on.recorded(top, "suspend-state") === "Suspending",
      () => on.suspend(),
    );
  },
  Suspended: (on) => on.suspended(),
  async Removing(on) {
    await on.suspended();
    await on.elapse(660_000);
    await on.marked();
  },
  async deleted(on) {
    await on.suspended();
    on.world.store.delete(volumes, { namespace, name: top }, {});
  },
  async unreadable(on) {
    await on.suspended();
    on.annotate(top, { "suspend-state": "Asleep" });
  },
  async "of another StatefulSet"(on) {
    await on.suspended();
    on.annotate(top, { "suspend-owner-uid": "other" });
  },
};

/** Annotations of users on the volume claim; on its StatefulSet if the name begins with `set `. */
const annotations: Readonly<Record<string, Texts>> = {
  "a hold": { hold: "true" },
  "a duration that is malformed": { "suspend-duration": "soon" },
  "set duration missing": { "suspend-duration": null },
  "a duration of 0": { "suspend-duration": "0" },
  "no request": { suspend: null },
  "a wish": { recover: "true" },
  "no word on the drain": { "drained-at": null },
  "set mode None": { "removal-mode": "None" },
};
const rarer: typeof annotations = {
  "a hold that is malformed": { hold: "yes" },
  "a request that is malformed": { suspend: "perhaps" },
  "a wish that is malformed": { recover: "perhaps" },
  "a word on the drain of the future": { "drained-at": "2100-01-01T00:00:00Z" },
  "a word on the drain that is malformed": { "drained-at": "lately" },
  "set wait malformed": { "wait-between-removals": "later" },
  "VOLUME_HOLD=remove": {},
};

/** Every pair of the annotations, and each of the others beside a malformed duration. */
const scenes: readonly (readonly string[])[] = [
  [],
  ...Object.keys(annotations).flatMap((one, at) => [
    [one],
    ...Object.keys(annotations)
      .slice(0, at)
      .map((other) => [other, one]),
  ]),
  ...Object.keys(rarer).flatMap((one) => [[one], [one, "a duration that is malformed"]]),
];

/** Writes to each object but the ledger in 20 rounds of both functions, and those of the last ten rounds. */
async function rounds(on: Volumes) {
  const counts = new Map<string, number>();
  const late: string[] = [];
  on.calls.length = 0;
  for (let round = 0; round < 20; round++) {
    for (const reconcile of [() => on.suspend(), () => on.collect(), () => on.sweepStrays()]) await reconcile();
    for (const { verb, resource, given } of on.calls.splice(0)) {
      if (!["patch", "scale"].includes(verb) || resource === "leases") continue;
      const { name } = given[1] as { readonly name: string };
      counts.set(name, (counts.get(name) ?? 0) + 1);
      if (round >= 10) late.push(`${verb} ${resource} ${name}: ${on.recorded(name, "suspend-message")}`);
    }
    await on.goOn(5_000);
  }
  return { most: Math.max(0, ...counts.values()), late };
}

for (const [state, begin] of Object.entries(states))
  test(`a volume that is ${state}: whatever its annotations are, both functions stop writing to each object`, async () => {
    for (const scene of scenes) {
      const on = new Volumes();
      await begin(on);
      for (const one of scene) {
        if (one === "VOLUME_HOLD=remove") on.restart({ settings: { volumeHold: "remove" } } as never);
        else if (one.startsWith("set ")) on.policy("group-a", annotations[one] ?? rarer[one] ?? {});
        else on.annotate(top, annotations[one] ?? rarer[one] ?? {});
      }
      const { most, late } = await rounds(on);
      assert.deepEqual(late, [], `${state}, ${scene.join(" and ")}`);
      // From the request to the end of a volume there are five steps.
      assert.ok(most <= 5, `${state}, ${scene.join(" and ")}: ${most} writes to one object`);
    }
  });

test("one function reports a member: the collector reports its removal, and the other one its pod or unreadable annotations", () => {
  const writesAfter = (change: (on: Suspended) => void) => {
    const on = Suspended.of(["a"]);
    on.suspend("a", 2, 5);
    change(on);
    return on.members.filter(({ ordinal }) => ordinal === 2).map(reporterOf)[0];
  };
  const annotated = (texts: Record<string, string | undefined>) => writesAfter((on) => on.annotate("a", 2, texts));
  assert.equal(annotated({}), "collector");
  assert.equal(annotated({ "suspend-state": "Removing" }), "collector");
  for (const state of ["Suspending", "Asleep", undefined])
    assert.equal(annotated({ "suspend-state": state }), "suspender", state);
  for (const suspend of ["false", "perhaps", undefined]) assert.equal(annotated({ suspend }), "suspender", suspend);
  for (const recover of ["true", "perhaps"]) assert.equal(annotated({ recover }), "suspender", recover);
});

test("a malformed or missing duration is reported before a user's hold, and then the hold is", async () => {
  for (const [duration, guard] of [
    ["soon", "duration-malformed"],
    [null, "duration-missing"],
  ] as const) {
    const on = new Volumes();
    await on.suspended();
    on.policy("group-a", { "suspend-duration": duration });
    on.annotate(top, { hold: "true" });
    await rounds(on);
    assert.match(on.recorded(top, "suspend-message") ?? "", new RegExp(`^${guard}: `));
    on.policy("group-a", { "suspend-duration": "1h" });
    await rounds(on);
    assert.match(on.recorded(top, "suspend-message") ?? "", /^on-hold: /);
    assert.ok(on.isKept(top));
  }
});
