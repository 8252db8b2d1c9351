/** A template whose hook or probe does not fit to a process that restarts inside its pod is reported once, with what to write. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { adviceOn } from "../../../../functions/advance-process-restart/decide-template.ts";
import type { TemplateContainer } from "../../../../functions/shared/kubernetes/cluster.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { RestartStage } from "./stage.ts";

const command = ["sh", "/sluice/runner/runner.sh", "./entrypoint.sh", "opensearch"];
const preStop = { preStop: { exec: { command: ["sh", "-c", "leave"] } } };
const ours = {
  exec: { command: ["sh", "/sluice/runner/runner.sh", "alive", "--", "curl", "-sf", "http://localhost:9200/"] },
};
const usual = { exec: { command: ["curl", "-sf", "http://localhost:9200/"] } };
const hook = /^container db has a preStop hook, which a stop in place does not run: write .* SLUICE_PRE_STOP as well$/;
const probe = /^container db has a liveness probe, .*: write exec with the command runner\.sh alive -- CHECK/;

const cases: readonly (readonly [string, Partial<TemplateContainer>, RegExp | undefined])[] = [
  ["neither a hook nor a probe", {}, undefined],
  ["a preStop hook alone", { lifecycle: preStop }, hook],
  ["a preStop hook beside another variable", { lifecycle: preStop, env: [{ name: "SLUICE_PRE_START" }] }, hook],
  ["a preStop hook beside SLUICE_PRE_STOP", { lifecycle: preStop, env: [{ name: "SLUICE_PRE_STOP" }] }, undefined],
  ["SLUICE_PRE_STOP alone", { env: [{ name: "SLUICE_PRE_STOP" }] }, undefined],
  ["no preStop hook in its lifecycle", { lifecycle: {} }, undefined],
  ["a usual liveness probe", { livenessProbe: usual }, probe],
  ["a liveness probe by HTTP", { livenessProbe: {} }, probe],
  ["a probe by the runner", { livenessProbe: ours }, undefined],
  [
    "a probe by the runner in a shell",
    { livenessProbe: { exec: { command: ["sh", "-c", "exec /r/runner.sh alive -- true"] } } },
    undefined,
  ],
  ["a probe by the runner without a check", { livenessProbe: { exec: { command: ["runner.sh", "alive"] } } }, probe],
  ["both", { lifecycle: preStop, livenessProbe: usual }, /preStop hook.*; container db has a liveness probe/],
];
for (const [what, container, expected] of cases)
  test(`a container with ${what} ${expected === undefined ? "needs nothing" : "is reported"}`, () => {
    const advice = adviceOn([{ name: "db", command, ...container }]);
    if (expected === undefined) assert.equal(advice, undefined);
    else assert.match(advice ?? "", expected);
  });

test("a container without the runner is not reported, and one that has it in its arguments is", () => {
  const unfit = { name: "db", lifecycle: preStop, livenessProbe: usual };
  assert.equal(adviceOn([unfit, { ...unfit, command: ["proxy"] }]), undefined);
  assert.match(
    adviceOn([{ ...unfit, args: ["/sluice/runner/runner.sh", "db"] }]) ?? "",
    /a preStop hook.*a liveness probe/,
  );
});

function give(stage: RestartStage, container: Partial<TemplateContainer>): void {
  const template = { spec: { containers: [{ name: "db", command, ...container }] } };
  stage.world.store.patch("statefulsets", { namespace, name: "group-a" }, { spec: { template } } as never);
}

const eventsOf = (stage: RestartStage) => stage.events.filter((one) => one.startsWith("RestartTemplateUnfit"));

test("RestartTemplateUnfit: one Warning Event on the StatefulSet for a template, and none once it is mended", async () => {
  const stage = new RestartStage();
  give(stage, { lifecycle: preStop });
  await stage.begun();
  for (let step = 0; step < 4; step++) await stage.step();
  stage.anew();
  for (let step = 0; step < 4; step++) await stage.step();
  assert.deepEqual(eventsOf(stage), [
    `RestartTemplateUnfit group-a: ${adviceOn([{ name: "db", command, lifecycle: preStop }])}`,
  ]);
  give(stage, { lifecycle: preStop, env: [{ name: "SLUICE_PRE_STOP" }] });
  for (let step = 0; step < 4; step++) await stage.step();
  assert.equal(eventsOf(stage).length, 1);
  give(stage, { lifecycle: preStop, env: [{ name: "SLUICE_PRE_STOP" }], livenessProbe: usual });
  for (let step = 0; step < 4; step++) await stage.step();
  assert.equal(eventsOf(stage).length, 2, "what is missing is another thing now");
});

test("a template is read once for each revision, and not at all where no process manager is named", async () => {
  const counted = async (annotations: Readonly<Record<string, string | null>>) => {
    const stage = new RestartStage();
    stage.world.annotate({ namespace, name: "group-a" }, annotations);
    give(stage, { lifecycle: preStop });
    for (let step = 0; step < 5; step++) await stage.step();
    return { reads: stage.count("get statefulsets"), events: eventsOf(stage).length };
  };
  const managed = await counted({});
  const unmanaged = await counted({ "sluice.dev/restart-manager": null });
  assert.deepEqual([managed.events, unmanaged.events], [1, 0]);
  assert.equal(managed.reads - unmanaged.reads, 1, "besides what each decision reads");
});
