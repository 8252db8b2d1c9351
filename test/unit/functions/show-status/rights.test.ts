/** Each right of the status, taken away: the rest is there, and names the right. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import type { Cluster } from "../../../../functions/shared/kubernetes/cluster.ts";
import { showStatus } from "../../../../functions/show-status/function.ts";
import { createTestWorld } from "../../triggers/server/world.ts";
import { guards } from "./given.ts";
import { answeredBy, failing } from "./started.ts";

const namespace = "app";

/** `never`: the process never had the right. `later`: it loses it when a client has seen the status once. */
interface Case {
  readonly lost: "never" | "later";
  /** The part that the status names. */
  readonly part: string;
  /** How many groups it still has. */
  readonly groups: 0 | 1;
}

const views = { lost: "never", part: "pods and StatefulSets", groups: 0 } as const;
/** What is known of the group stays. */
const asItWas = { lost: "later", part: "group app/ingester", groups: 1 } as const;
/** They are listed again and again, so that they are late. */
const late = (resource: string) => ({ lost: "never", part: `changes of ${resource}`, groups: 1 }) as const;
const lists = (part: string) => [
  { lost: "never", part, groups: 1 } as const,
  { lost: "later", part, groups: 1 } as const,
];

const cases: Readonly<Record<string, readonly Case[]>> = {
  "list pods": [views],
  "watch pods": [late("pods")],
  "list statefulsets": [views],
  "watch statefulsets": [late("statefulsets")],
  "list zoneawarepoddisruptionbudgets": [views, asItWas],
  "watch zoneawarepoddisruptionbudgets": [late("zoneawarepoddisruptionbudgets")],
  "list leases": lists("ledgers"),
  "list events": lists("events"),
};

test("each right of the function has a case here, and there is a case for no other right", () => {
  const rights = showStatus.needs.flatMap(({ resource, verbs }) => verbs.map((verb) => `${verb} ${resource}`));
  assert.deepEqual(Object.keys(cases).sort(), rights.sort());
});

/** A process whose right can be taken away. */
function start(right: string) {
  const [verb = "", resource = ""] = right.split(" ");
  const message = `${resource} is forbidden: User "sluice" cannot ${verb} resource "${resource}"`;
  const state = { isLost: false, refusals: 0 };
  const refuse = () => {
    state.refusals++;
    throw failing(403, message, resource, verb);
  };
  const testWorld = createTestWorld({
    definitions: [],
    status: { definition: showStatus, guards, answeredBy },
    beforeCall(call) {
      if (state.isLost && call.verb === verb && call.resource === resource) refuse();
    },
  });
  const { watch } = testWorld.cluster;
  const watching = async function* (...given: Parameters<Cluster["watch"]>) {
    if (state.isLost && verb === "watch" && given[0] === resource) refuse();
    yield* watch(...given);
  };
  Object.assign(testWorld.cluster, { watch: watching });
  const read = async (standalone: ReturnType<typeof testWorld.start>, seconds: number): Promise<Status> => {
    await testWorld.goTo(seconds);
    const reading = standalone.readStatus?.();
    await testWorld.goTo(seconds + 3);
    return (await reading) ?? assert.fail();
  };
  return { ...testWorld, state, read, why: `Sluice lacks the right to ${verb} ${resource}: ${message}` };
}

for (const [right, all] of Object.entries(cases))
  for (const { lost, part, groups } of all) {
    const when = lost === "never" ? "that it never had" : "that it loses";
    test(`without the right to ${right} ${when} the status names it, and has everything else`, async () => {
      const { world, state, why, read, ...process } = start(right);
      state.isLost = lost === "never";
      const standalone = process.start();
      world.store.create("events", namespace, {
        ...{ metadata: { name: "event" }, reason: "RolloutStarted", message: "it begins" },
        involvedObject: { kind: "StatefulSet", namespace, name: "ingester-a" },
        ...{ source: { component: "sluice" }, lastTimestamp: "2026-01-01T00:00:00Z" },
      });
      const first = await read(standalone, 5);
      if (lost === "later") assert.deepEqual([first.leftOut, first.groups.length], [[], 1]);
      state.isLost = true;
      world.store.delete("pods", { namespace, name: "ingester-a-0" }, {});
      const status = await read(standalone, 50);
      assert.ok(state.refusals > 0, "the right is used");
      assert.deepEqual(
        status.leftOut.map((left) => [left.part, left.why]),
        [[part, why]],
      );
      assert.deepEqual(
        [status.groups.length, status.events?.length],
        [groups, right === "list events" ? undefined : 1],
      );
      state.isLost = false;
      assert.deepEqual((await read(standalone, 300)).leftOut, []);
    });
  }
