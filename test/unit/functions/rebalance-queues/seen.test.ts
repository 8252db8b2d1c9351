/** Which cluster a reconcile considers whole, whose mark it obeys, and which wishes it leaves in place. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Brokers, balanced, namespace, setKey, settleMs, usual, wish } from "./brokers.ts";

const at = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

test("pods-not-ready: pods and generation show a change before the status shows it", async () => {
  const cases: [(brokers: Brokers) => void, RegExp][] = [
    [
      ({ harness }) => harness.world.kubelet.breakPod({ namespace, name: "group-a-1" }, "Unready"),
      /group-a-1 is not ready$/,
    ],
    [
      ({ harness: { world } }) => {
        const pod = { namespace, name: "group-a-2" };
        world.store.delete("pods", pod, { preconditions: { uid: world.store.get("pods", pod).metadata.uid } });
      },
      /group-a-2 is terminating$/,
    ],
    [({ harness }) => harness.world.changeTemplate(setKey, "app:2"), /its controller is yet to see its change$/],
  ];
  for (const [change, message] of cases) {
    const brokers = await balanced();
    const process = brokers.process();
    change(brokers);
    assert.equal(await process.run(), "pods-not-ready");
    assert.match(brokers.harness.verdicts.at(-1)?.message ?? "", message);
  }
});

test("with OnDelete a rollout is over when all pods have the wanted revision, whatever revision the controller calls current", async () => {
  const brokers = await balanced(usual, { updateStrategy: "OnDelete" });
  brokers.harness.world.changeTemplate(setKey, "app:2");
  for (const ordinal of [2, 1, 0]) await brokers.replace(`group-a-${ordinal}`);
  await brokers.process().goOn(settleMs + 5_000);
  assert.deepEqual(brokers.pods, ["group-a-0"]);
});

test("a wish stays until Sluice has served it: after a refusal, and while its time has not come", async () => {
  const brokers = await balanced();
  await brokers.goOn(100_000);
  const now = at(brokers.harness.timeline.nowMs());
  brokers.annotate({ [wish]: now });
  brokers.reply = () => ({ status: 500 });
  assert.equal(await brokers.process().run(), "rebalance-refused");
  assert.equal(brokers.set.metadata.annotations?.[wish], now);
  brokers.reply = () => ({ status: 204 });
  const later = at(brokers.harness.timeline.nowMs() + 3_600_000);
  brokers.annotate({ [wish]: later });
  await brokers.replace("group-a-1");
  await brokers.process().goOn(settleMs + 60_000);
  assert.equal(brokers.asked.length, 2);
  assert.equal(brokers.set.metadata.annotations?.[wish], later);
});

test("the mark of a RabbitmqCluster that was created again does not count for the StatefulSet of the earlier one", async () => {
  const brokers = await balanced();
  const { world, timeline } = brokers.harness;
  const annotations = { [wish]: at(timeline.nowMs()) };
  world.store.create("rabbitmqclusters", namespace, { metadata: { name: "rabbit", annotations }, spec: {} });
  const owner = { apiVersion: "rabbitmq.com/v1beta1", kind: "RabbitmqCluster", name: "rabbit", controller: true };
  // The owning object is gone, and the garbage collector would soon delete this one as well.
  world.garbageCollector.stop();
  world.store.patch("statefulsets", setKey, { metadata: { ownerReferences: [{ ...owner, uid: "before" }] } });
  await brokers.replace("group-a-1");
  await brokers.process().goOn(settleMs + 5_000);
  assert.deepEqual(brokers.pods, ["group-a-0"]);
});

test("shadow mode sends no Event about malformed texts", async () => {
  const brokers = new Brokers();
  brokers.annotate({ [wish]: "soon" });
  await brokers.process({ mode: "shadow" }).goOn(1_000);
  assert.deepEqual(brokers.events, []);
});
