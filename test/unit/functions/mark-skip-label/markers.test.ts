/** If markers can be read in pods, a deleted owner is released as soon as all of them are there. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Cluster, ObjectKey } from "../../../../functions/shared/kubernetes/cluster.ts";
import { finalizer, ownedCluster } from "./owned-cluster.ts";

const skipLabelMarker = { container: "rabbitmq", path: "/etc/pod-info/skipPreStopChecks" };

/** A deleted owner, and a process that may exec. `seen`: the pods whose file has a text. */
async function deleted(settings: Readonly<Record<string, unknown>> = { skipLabelMarker }) {
  const world = await ownedCluster();
  const read: string[] = [];
  const seen = new Set<string>();
  let broken: Error | undefined;
  const readFile = async ({ name }: ObjectKey, container: string, path: string) => {
    read.push(`${name} ${container} ${path}`);
    if (broken !== undefined) throw broken;
    return seen.has(name) ? "true" : undefined;
  };
  const cluster: Cluster = { ...world.harness.context.cluster, readFile };
  const process = world.process(settings, { cluster });
  await process.reconcile();
  world.remove();
  const breakDown = (error: Error) => {
    broken = error;
  };
  return { world, process, read, seen, breakDown };
}

const pods = ["group-server-0", "group-server-1", "group-server-2"];

test("Sluice releases the owner within seconds after the file in each container has a text, and not before", async () => {
  const { world, process, read, seen } = await deleted();
  assert.equal(await process.reconcile(), "marker-unseen");
  assert.deepEqual(
    [...new Set(read)].sort(),
    pods.map((pod) => `${pod} rabbitmq /etc/pod-info/skipPreStopChecks`),
  );
  for (const pod of pods.slice(1)) seen.add(pod);
  assert.equal(await process.reconcile(), "marker-unseen");
  assert.match(world.status()?.sentence ?? "", /^group-server-0 got the label .* is let go at 2\S+Z at the latest$/);
  seen.add("group-server-0");
  await world.harness.goOn(4_000);
  await process.reconcile();
  assert.equal(world.find(), undefined);
});

test("one Event says how long Sluice holds the owner at most; without the right to exec Sluice waits the full 90 s", async () => {
  const { world, process, seen, breakDown } = await deleted();
  for (const pod of pods) seen.add(pod);
  breakDown(new Error("403"));
  for (let rounds = 0; rounds < 3; rounds++) assert.equal(await process.reconcile(), "marker-unseen");
  const recorded = world.harness.events.filter((event) =>
    /marker-unseen: .* is let go at \S+ at the latest/.test(event),
  );
  assert.equal(recorded.length, 1, recorded.join("\n"));
  const problems = world.harness.problems.filter((problem) => /markers cannot be read in pods/.test(problem));
  assert.equal(problems.length, 1, "it is reported once");
  await world.harness.goOn(88_000);
  assert.equal(await process.reconcile(), "marker-unseen");
  assert.deepEqual(world.find()?.finalizers, [finalizer]);
  await world.harness.goOn(3_000);
  await process.reconcile();
  assert.equal(world.find(), undefined);
});

test("without the setting Sluice asks no container", async () => {
  const { process, read } = await deleted({});
  assert.equal(await process.reconcile(), "marker-unseen");
  assert.deepEqual(read, []);
});
