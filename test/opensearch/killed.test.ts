/**
 * All processes of a real OpenSearch restart together, because nodes of the old name of the cluster and nodes of the new one do
 * not join each other. The function is killed after each of its writes: those of the API server, of a process manager and of the
 * database.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { freePort, releasePorts } from "../controlplane/ports.ts";
import type { CarriedOut } from "../support/killing-proxy.ts";
import { MortalFunction } from "../support/mortal-function.ts";
import { slowMs } from "./nodes.ts";
import { asDatabase, namespace } from "./pods.ts";
import { skip, stage } from "./stage.ts";
import { assertNothingLeft, assertTogether, writeDocument } from "./together.ts";

/** Events are no state of a restart. */
const isWrite = (method: string, path: string): boolean => method !== "GET" && !/\/events(\/|$)/.test(path);

/** What makes a step: the phase of claims and pods, and what is in the database. */
const parts = /(phase|hold|restart-id|last-restart|sluice_restart_hold)\\*":\\*"?(null|true|false|[a-z-]*)/g;

/** The same step of another pod is the same one, so that some pods have been written to, and others have not. */
function stepOf({ method, path, body }: CarriedOut): string {
  const object = path.replace(/^.*\/(\w+)\/(?=[^/]+$)/, "$1 ").replace(/(sluice-db|db-).*$/, "");
  const written = [...body.matchAll(parts)].map(([, key, value]) => `${key}=${value}`);
  // A process that dies at `flushing` never flushes, so that it dies after the flush.
  return [method, object.trim(), ...new Set(written)].join(" ").replace("=flushing", "=restricting");
}

/** After each of these a process must have been killed. They are the writes of a restart, in their order. */
const expectedSteps: readonly RegExp[] = [
  ...[/^PATCH leases phase=preparing/, /^PATCH statefulsets restart-id=[a-z]/, /^PATCH pods phase=stop-coordinated/],
  ...[
    /^PATCH secrets/,
    /^PATCH leases phase=restricting hold=true/,
    /^PUT _cluster settings sluice_restart_hold=[a-z]/,
  ],
  ...[/^POST \/_flush/, /^PATCH leases phase=stopping/, /^POST es stop/],
  ...[/^PATCH leases phase=starting/, /^PATCH pods phase=start-coordinated/, /^POST es start/],
  ...[/^PUT _cluster settings sluice_restart_hold=null/, /^PATCH leases .*last-restart/, /^PATCH pods phase=null/],
  /^PATCH statefulsets restart-id=null/,
];

suite("three processes of a real OpenSearch whose function is killed after each of its writes", { skip }, () => {
  let ports: readonly [number, number] | undefined;
  let mortal: MortalFunction | undefined;

  const on = stage(async () => {
    ports = [await freePort(), await freePort()];
    const [managerPort, databasePort] = ports;
    const annotations = () => ({ ...asDatabase(databasePort), "sluice.dev/restart-manager": `http://:${managerPort}` });
    return { hasSecrets: true, annotations, startsFunction: false, prepare: writeDocument };
  });

  after(async () => {
    await mortal?.stop();
    if (ports) releasePorts(...ports);
  });

  /** Starts the function, which is killed from now on. */
  function start(): Promise<MortalFunction> {
    const { pods } = on;
    const others = pods.names.flatMap((name) => {
      const host = pods.nodes.addressOf(name);
      return [pods.servedOf(name).port, pods.nodes.port].map((port, index) => ({
        upstream: { url: `http://${host}:${port}` },
        at: { host, port: ports?.[index] ?? 0 },
      }));
    });
    const { controlPlane, functionSettings: settings } = pods;
    return MortalFunction.start({ controlPlane, namespace, settings, isWrite, stepOf, others });
  }

  test("none starts before all are down, each restarts once, and documents and allocation are as before", async (context) => {
    const { pods } = on;
    const { nodes, names } = pods;
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    await pods.expect(["cluster.name: renamed"]);
    await pods.markSets("schedule-coordinated");
    const killed = await start();
    mortal = killed;
    await eventually("a process that stops", slowMs, async () => (await since()).length > 0 || undefined);
    await pods.restarted(names);
    for (const step of killed.steps) context.diagnostic(step);
    await assertTogether(pods, since);
    await assertNothingLeft(pods);
    for (const name of names) {
      const { body } = await nodes.ask<{ readonly cluster_name: string }>(name, "/");
      assert.equal(body.cluster_name, "renamed", name);
    }
    const passedBy = expectedSteps.filter((expected) => !killed.steps.some((step) => expected.test(step)));
    assert.deepEqual(passedBy, [], killed.steps.join("\n"));
  });
});
