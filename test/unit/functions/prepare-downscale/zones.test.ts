/** The other zones of a group: how long ago they were made smaller, and whether they are whole. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { key, namespace } from "../../shared/reconcile/harness.ts";
import { type Downscales, denied, prefix, preparedGroup } from "./downscales.ts";

const minTime = `${prefix}min-time-between-zones-downscale`;
const last = `${prefix}last-downscale`;
const minute = 60_000;

/** The RFC 3339 time this many minutes ago, by the clock of the fake cluster. */
function ago(world: Downscales, minutes: number): string {
  const ms = world.process().cluster.serverTimeMs() - minutes * minute;
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

async function spaced(): Promise<Downscales> {
  const world = await preparedGroup();
  for (const zone of ["group-a", "group-b"]) world.label(zone, { [minTime]: "12m" });
  // The ledger is older than the time between zones.
  await world.harness.goOn(20 * minute);
  return world;
}

function track(
  world: Downscales,
  data: Readonly<Record<string, string>>,
  name = "rollout-operator-zone-tracker",
): void {
  const metadata = { name };
  world.harness.world.store.create("configmaps", namespace, { apiVersion: "v1", kind: "ConfigMap", metadata, data });
}

test("a refusal is recorded as an Event on the StatefulSet, because an autoscaler shows it to no user, once a minute for each guard", async () => {
  const world = await spaced();
  world.annotate("group-b", { [last]: ago(world, 5) });
  const processes = [world.process(), world.process()];
  for (const process of processes) assert.equal(await process.guard("group-a", 4), "min-time-between-zones");
  await world.harness.goOn(100);
  const refusals = world.harness.events.filter((event) => event.startsWith("DownscaleRefused"));
  assert.equal(refusals.length, 1, world.harness.events.join("\n"));
  assert.match(
    refusals[0] ?? "",
    /^DownscaleRefused group-a: min-time-between-zones: downscale of statefulsets\/group-a/,
  );
});

test("a review reads the zone tracker of the name that the setting gives, and no other", async () => {
  const world = await spaced();
  track(world, { "group-b": JSON.stringify({ lastDownscaled: ago(world, 5) }) }, "tracker");
  const reading = (zoneTrackerName: string) => world.process(() => ({ settings: { zoneTrackerName } }));
  assert.equal(await reading("tracker").guard("group-a", 4), "min-time-between-zones");
  assert.equal(await reading("rollout-operator-zone-tracker").guard("group-a", 4), "allowed");
});

test("min-time-between-zones: another zone's annotation delays a downscale, and the message says until when", async () => {
  const world = await spaced();
  world.annotate("group-b", { [last]: ago(world, 5) });
  const answer = denied(await world.process().review("group-a", 4));
  assert.deepEqual([answer.guard, answer.code], ["min-time-between-zones", 429]);
  assert.match(
    answer.message,
    /group-b was made smaller at \d{4}-.*, and the time between two zones is 720 s: try again after/,
  );
  assert.deepEqual([world.requests, world.claimed], [[], []]);
  world.annotate("group-b", { [last]: ago(world, 13) });
  assert.equal(await world.process().guard("group-a", 4), "allowed");
});

test("a last downscale does not delay another zone if it is the zone's own, has no label, or is long ago", async () => {
  const world = await spaced();
  world.annotate("group-a", { [last]: ago(world, 1) });
  world.label("group-b", { [minTime]: null });
  world.annotate("group-b", { [last]: ago(world, 1) });
  assert.equal(await world.process().guard("group-a", 4), "allowed");
});

test("the newest last downscale counts: of the annotation, the zone tracker's ConfigMap and the ledger", async () => {
  const world = await spaced();
  world.annotate("group-b", { [last]: ago(world, 100) });
  track(world, { "group-b": JSON.stringify({ LastDownscaled: ago(world, 5) }) });
  assert.equal(await world.process().guard("group-a", 4), "min-time-between-zones");
  await world.harness.goOn(8 * minute);
  world.harness.writeLedger({ "sluice.dev/last-downscales": JSON.stringify({ "group-b": Date.parse(ago(world, 3)) }) });
  assert.equal(await world.process().guard("group-a", 4), "min-time-between-zones");
  await world.harness.goOn(10 * minute);
  assert.equal(await world.process().guard("group-a", 4), "allowed");
});

test("last-downscale-malformed: a last downscale that is no time blocks the other zones until a user corrects it", async () => {
  const broken: ((world: Downscales) => void)[] = [
    (world) => world.annotate("group-b", { [last]: "yesterday" }),
    (world) => track(world, { "group-b": "{}" }),
    (world) => track(world, { "group-b": "nonsense" }),
    (world) => world.harness.writeLedger({ "sluice.dev/last-downscales": "[]" }),
  ];
  for (const breaks of broken) {
    const world = await spaced();
    breaks(world);
    const answer = denied(await world.process().review("group-a", 4));
    assert.deepEqual([answer.guard, answer.code], ["last-downscale-malformed", 400]);
  }
});

test("min-time-malformed: a label that is no Go duration blocks the other zones if a last downscale is known", async () => {
  const world = await spaced();
  world.label("group-b", { [minTime]: "1d" });
  world.annotate("group-b", { [last]: ago(world, 10_000) });
  const answer = denied(await world.process().review("group-a", 4));
  assert.deepEqual([answer.guard, answer.code], ["min-time-malformed", 400]);
});

test("if the ledger is new and no object has a last downscale, the time between zones counts from the ledger's creation", async () => {
  const world = await spaced();
  world.harness.world.store.delete("leases", { namespace, name: "sluice-group" });
  const process = world.process();
  assert.equal(await process.guard("group-a", 4), "ledger-new");
  await world.harness.goOn(minute);
  const answer = denied(await process.review("group-a", 4));
  assert.equal(answer.guard, "min-time-between-zones");
  assert.match(answer.message, /Sluice does not know when group-b was last made smaller/);
  await world.harness.goOn(12 * minute);
  assert.equal(await process.guard("group-a", 4), "allowed");
});

test("the time is written to the ledger when the downscale was carried out, and the other zone waits from then on", async () => {
  const world = await spaced();
  const process = world.process();
  assert.equal(await process.guard("group-a", 4), "allowed");
  const stampMs = process.cluster.serverTimeMs();
  assert.equal(await process.guard("group-b", 4), "zone-scaling-down", "of two zones at once one is allowed");
  world.scale("group-a", 4);
  await world.harness.goOn(minute);
  assert.equal(await process.sweep(), "downscale-done");
  assert.deepEqual(world.claimed, []);
  const times = world.harness.ledger.lastDownscales ?? {};
  assert.ok(Math.abs((times["group-a"] ?? 0) - stampMs) < 1_000);
  assert.equal(await process.guard("group-b", 4), "min-time-between-zones");
  assert.equal(await process.guard("group-a", 3), "allowed", "a zone does not wait for its own time");
  assert.deepEqual([...new Set(process.writes())].sort(), ["create events", "patch leases"]);
});

test("another zone's finished downscale does not block the next one, although no reconcile has seen it yet; its time counts", async () => {
  for (const [open, guard] of [
    [preparedGroup, "allowed"],
    [spaced, "min-time-between-zones"],
  ] as const) {
    const world = await open();
    const process = world.process();
    assert.equal(await process.guard("group-a", 4), "allowed");
    assert.equal(await process.guard("group-b", 4), "zone-scaling-down");
    world.scale("group-a", 4);
    await world.harness.goOn(15_000);
    assert.deepEqual(world.claimed, ["group-a confirmed"]);
    assert.equal(await process.guard("group-b", 4), guard);
    const isTaken = guard === "allowed";
    assert.deepEqual(world.claimed, [isTaken ? "group-b confirmed" : "group-a confirmed"]);
    assert.equal(world.harness.ledger.lastDownscales?.["group-a"] !== undefined, isTaken);
  }
});

test("a downscale that was allowed and never stored does not block the other zones", async () => {
  const world = await spaced();
  const process = world.process();
  assert.equal(await process.guard("group-a", 4), "allowed");
  await world.harness.goOn(91_000);
  assert.equal(await process.sweep(), "downscale-taken-back");
  assert.deepEqual([world.prepared.size, world.harness.ledger.lastDownscales], [0, undefined]);
  assert.equal(await process.guard("group-b", 4), "allowed");
});

test("zone-updating: no zone is made smaller while another zone has pods of an older revision", async () => {
  const world = await preparedGroup();
  world.harness.world.changeTemplate({ namespace, name: "group-b" }, "app:2");
  assert.equal(await world.process().guard("group-a", 4), "zone-updating", "the status of the StatefulSet is behind");
  await world.harness.goOn(1_000);
  const answer = denied(await world.process().review("group-a", 4));
  assert.equal(answer.guard, "zone-updating");
  assert.match(answer.message, /group-b is being updated: 5 of its pods/);
  assert.equal(await world.process().guard("group-b", 4), "allowed", "a zone's own update does not block it");
});

test("zone-updating: the message leaves open whether pods are terminating or of an older revision", async () => {
  const world = await preparedGroup();
  const at = { namespace, name: "group-b" };
  const status = { ...world.harness.world.store.get("statefulsets", at).status, updatedReplicas: 3 };
  const process = world.process();
  // Otherwise the StatefulSet's controller would correct the status before the review reads it.
  process.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "statefulsets")
      world.harness.world.store.patch(resource, at, { status }, "status");
  };
  const { guard, message } = denied(await process.review("group-a", 4));
  assert.equal(guard, "zone-updating");
  assert.match(message, /by its status 2 pods of group-b are on their way out, or of an older revision$/);
});

test("zones-down: no zone is made smaller while another zone has pods down; pods of its own may be down", async () => {
  const world = await preparedGroup();
  world.harness.world.kubelet.breakPod({ namespace, name: "group-b-0" }, "Error");
  assert.equal(await world.process().guard("group-a", 4), "zones-down");
  assert.equal(await world.process().guard("group-b", 4), "allowed");
});

test("a StatefulSet without a group is prepared under a ledger of its own", async () => {
  const world = await preparedGroup();
  const lone = { ...key, group: "statefulset:group-a" };
  world.label("group-a", { "rollout-group": null, [minTime]: "12m" });
  world.annotate("group-b", { [last]: ago(world, 1) });
  const process = world.process();
  assert.equal(await process.guard("group-a", 4), "ledger-new");
  await world.harness.goOn(11_000);
  assert.equal(await process.guard("group-a", 4), "allowed");
  assert.deepEqual(world.requests, ["POST group-a-4"]);
  world.scale("group-a", 4);
  await world.harness.goOn(minute);
  assert.equal(await process.sweep(lone), "downscale-done");
});

test("several-budgets: a StatefulSet whose ledger is not clear is not made smaller", async () => {
  const world = await preparedGroup();
  world.label("group-a", { "rollout-group": null });
  for (const budget of ["one", "two"])
    world.harness.world.store.create("zoneawarepoddisruptionbudgets", namespace, {
      apiVersion: "rollout-operator.grafana.com/v1",
      kind: "ZoneAwarePodDisruptionBudget",
      metadata: { name: budget },
      spec: { selector: { matchLabels: { "rollout-group": "group" } }, maxUnavailable: 1 },
    });
  assert.equal(await world.process().guard("group-a", 4), "several-budgets");
});
