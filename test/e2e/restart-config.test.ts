/**
 * A person changes Secrets, and the processes that were started with other files restart by themselves: the shipped function
 * under the account of its overlay and the Roles of its README, on a real API server.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { eventually } from "../controlplane/api.ts";
import { keepMounted } from "../process-manager/mounted-secret.ts";
import { patienceMs } from "../process-manager/pod.ts";
import { RestartStage, skipWithoutStage, tokenSecret } from "../process-manager/restart-stage.ts";
import { isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { isDefinition, Kubectl } from "../support/kubectl.ts";
import type { Server } from "../support/server.ts";

const name = "advance-process-restart";
const namespace = "files";
const sets = ["db-zone-a", "db-zone-b", "db-zone-c"];
const expectedOf = (set: string): string => `${set}-files`;
const mountedOf = (set: string): string => `${set}-mounted`;
const inTurn = sets.flatMap((set) => [`stop ${set}`, `start ${set}`]);

suite("files of processes on the real API server", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  let kubectl: Kubectl;
  let server: Server;
  const closing = new AbortController();
  const mounting: Promise<void>[] = [];

  /** A person gives the account of the function a right to these Secrets and no others. */
  const permit = async (role: string, verbs: string, secrets: readonly string[]) => {
    const named = secrets.map((one) => `--resource-name=${one}`);
    await kubectl.run("-n", namespace, "create", "role", role, "--resource=secrets", `--verb=${verbs}`, ...named);
    const account = `--serviceaccount=${namespace}:${name}`;
    await kubectl.run("-n", namespace, "create", "rolebinding", role, `--role=${role}`, account);
  };

  const expect = (set: string, main: string) =>
    stage.api.patch(stage.path("secrets", expectedOf(set)), { stringData: { "opensearch.yml": main } });

  /** What the journal has besides its first lines, once it has as many more as a restart of all writes. */
  const journalAfter = (lines: number) =>
    eventually("a stop and a start of each process", patienceMs * 5, async () => {
      const journal = (await stage.journal()).slice(lines);
      return journal.length >= inTurn.length ? journal : undefined;
    });

  const atRest = async () => {
    for (const set of sets) await stage.withoutPhase(`${set}-0`);
    await eventually("a ledger without claims", patienceMs, async () =>
      (await stage.claims()) === "" ? true : undefined,
    );
  };

  /** The first words of a message in the log that match. */
  const logged = (pattern: RegExp) =>
    eventually(`${pattern} in the log`, patienceMs * 2, async () => pattern.exec(JSON.stringify(server.log))?.[0]);

  before(async () => {
    stage = await RestartStage.set(namespace, sets.length);
    for (const [zone, set] of sets.entries()) {
      const stringData = { "db.yml": set, "opensearch.yml": "node.attr.x: first" };
      await stage.api.post(stage.path("secrets"), { metadata: { name: expectedOf(set) }, stringData });
      await stage.api.post(stage.path("secrets"), {
        metadata: { name: mountedOf(set) },
        stringData: { "db.yml": set },
      });
      const pod = stage.pods[zone]?.pod ?? assert.fail("no pod");
      mounting.push(keepMounted(stage.api, stage.path("secrets", mountedOf(set)), pod, closing.signal));
      const annotations = {
        "sluice.dev/restart-config": expectedOf(set),
        "sluice.dev/restart-mounted": mountedOf(set),
      };
      await stage.api.patch(stage.setPath(set), { metadata: { annotations } });
    }
    kubectl = await Kubectl.open(stage.controlPlane);
    const objects = await kubectl.buildIn(namespace, "standalone", [], [], ["overlays/restart"]);
    await kubectl.apply(objects.filter((one) => !isWorkload(one) && !isWebhook(one) && !isDefinition(one)));
    await permit("restart-token", "get", [tokenSecret]);
    const { account, settings } = workloadOf(objects, name);
    const kubeconfig = await kubeconfigOf(stage.controlPlane, stage.api, namespace, account);
    server = await stage.serve({ ...settings, PORT: "0", SWEEP_INTERVAL: "2s" }, kubeconfig);
  });
  after(async () => {
    closing.abort();
    await Promise.all(mounting);
    await kubectl?.close();
    await stage?.close();
  });

  test("restart-config-refused: without a Role nothing restarts, and the message names the Role to write", async () => {
    const message = await logged(/write a Role with get on the Secrets [^"]*/);
    assert.match(message, /Secrets db-zone-(.)-files and db-zone-\1-mounted, and patch on db-zone-\1-mounted/);
    assert.equal((await stage.journal()).length, sets.length, "each process has started once");
    await permit("restart-read", "get", [...sets.map(expectedOf), ...sets.map(mountedOf)]);
    await logged(/write a Role with patch on db-zone-.-mounted/);
    assert.equal((await stage.journal()).length, sets.length);
  });

  test("with the Roles each process that has other files restarts once, in turn, and its StatefulSet owns the copy", async () => {
    const begun = (await stage.journal()).length;
    await permit("restart-write", "patch", sets.map(mountedOf));
    assert.deepEqual(await journalAfter(begun), inTurn);
    await atRest();
    for (const set of sets) {
      const { metadata } = await stage.api.get<{ readonly metadata: Metadata }>(stage.path("secrets", mountedOf(set)));
      assert.deepEqual(
        metadata.ownerReferences?.map((one) => [one.kind, one.name]),
        [["StatefulSet", set]],
      );
    }
  });

  test("restart-config-disagrees: one Secret alone with a setting of all nodes restarts nothing; with the last one all restart together", async () => {
    const begun = (await stage.journal()).length;
    const [last = "", ...first] = sets;
    for (const set of first) {
      await expect(set, "cluster.name: other");
      await logged(/has another value of cluster\.name/);
    }
    assert.equal((await stage.journal()).length, begun);
    await expect(last, "cluster.name: other");
    const journal = await journalAfter(begun);
    assert.deepEqual(
      journal.slice(0, sets.length).sort(),
      sets.map((set) => `stop ${set}`),
    );
    assert.deepEqual(
      journal.slice(sets.length).sort(),
      sets.map((set) => `start ${set}`),
    );
    await atRest();
    assert.equal((await stage.journal()).length, begun + inTurn.length);
  });

  test("restart-config-unreadable: a main file that cannot be parsed restarts nothing, and the mended one does", async () => {
    const begun = (await stage.journal()).length;
    const [set = ""] = sets;
    await expect(set, "cluster.name: [");
    await logged(/the files of db-zone-a-files restart nothing/);
    assert.equal((await stage.journal()).length, begun);
    await expect(set, "cluster.name: other\nnode.attr.x: mended");
    await eventually(
      "its process alone restarts",
      patienceMs * 3,
      async () => (await stage.journal()).length >= begun + 2 || undefined,
    );
    await atRest();
    assert.deepEqual((await stage.journal()).slice(begun), [`stop ${set}`, `start ${set}`]);
  });
});
