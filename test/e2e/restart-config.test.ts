/**
 * A person changes Secrets, and the processes that were started with other files restart by themselves. A Secret that nothing
 * names any more goes. The shipped functions run under the accounts of their overlay and the Roles of their READMEs, on a real
 * API server.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { type ApiError, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { keepMounted } from "../process-manager/mounted-secret.ts";
import { patienceMs } from "../process-manager/pod.ts";
import { RestartStage, skipWithoutStage } from "../process-manager/restart-stage.ts";
import { askedBy, isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import type { EventObject } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

const name = "advance-process-restart";
const collector = "gc-restart-config";
/** That of the commands in the READMEs. */
const namespace = "search";
/** A Secret that nothing names stays for so long. */
const unnamedForMs = 900_000;
const sets = ["db-zone-a", "db-zone-b", "db-zone-c"];
const expectedOf = (set: string): string => `${set}-files`;
const mountedOf = (set: string): string => `${set}-mounted`;
const inTurn = sets.flatMap((set) => [`stop ${set}`, `start ${set}`]);

/** What a ledger knows of a Secret. */
interface KnownSecret {
  readonly unnamed?: number;
  readonly checks?: number;
}

suite("files of processes on the real API server", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  let kubectl: Kubectl;
  let objects: readonly Built[];
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

  /** A person runs the commands that the README of a function gives in this chapter, for its Role. */
  const permitByReadme = async (of: string, chapter: string) => {
    const commands = await kubectl.commandsOf(`../functions/${of}/README.md`, chapter);
    for (const command of commands) await kubectl.shell(command);
  };

  /** Starts a function under its account and with the settings of its overlay, but with more sweeps. */
  const serve = async (of: string) => {
    const { account, settings } = workloadOf(objects, of);
    const kubeconfig = await kubeconfigOf(stage.controlPlane, stage.api, namespace, account);
    return stage.serve({ ...settings, PORT: "0", SWEEP_INTERVAL: "2s" }, kubeconfig);
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
  const logged = (pattern: RegExp, by = server) =>
    eventually(`${pattern} in the log`, patienceMs * 2, async () => pattern.exec(JSON.stringify(by.log))?.[0]);

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
    objects = await kubectl.buildIn(namespace, "standalone", [], [], ["overlays/restart"]);
    await kubectl.apply(objects.filter((one) => !isWorkload(one) && !isWebhook(one) && !isDefinition(one)));
    await permitByReadme(name, "A pod to restart");
    server = await serve(name);
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

  test("config-forbidden: a Secret that nothing names stays without a Role, which the message names, and goes with the Role of the README", async () => {
    const [set = ""] = sets;
    const [old, next] = ["db-files-1", "db-files-2"];
    const { data } = await stage.api.get<{ readonly data: object }>(stage.path("secrets", expectedOf(set)));
    for (const one of [old, next]) await stage.api.post(stage.path("secrets"), { metadata: { name: one }, data });
    const named = (secret: string) =>
      stage.api.patch(stage.setPath(set), { metadata: { annotations: { "sluice.dev/restart-config": secret } } });
    await named(old);
    const from = await auditPosition(stage.controlPlane.auditLog);
    const collecting = await serve(collector);
    await logged(/write a Role with get and delete on db-files-1/, collecting);
    const events = async (reason: string) =>
      (await stage.api.get<{ items: EventObject[] }>(`${stage.path("events")}?fieldSelector=reason=${reason}`)).items;
    // Each Secret without a Role has an Event of its own, that of the other StatefulSet as well.
    const kept = await eventually("the Event", patienceMs, async () =>
      (await events("RestartConfigKept")).find(({ message = "" }) =>
        message.endsWith("write a Role with get and delete on db-files-1"),
      ),
    );
    assert.deepEqual([kept.type, kept.involvedObject.name], ["Warning", set]);

    await permitByReadme(collector, "The right to Secrets");
    const known = (what: string, isIt: (one: KnownSecret) => boolean) =>
      eventually(what, patienceMs * 2, async () => {
        const all: Readonly<Record<string, KnownSecret>> = JSON.parse(
          (await stage.ledger())?.["sluice.dev/restart-configs"] ?? "{}",
        );
        return all[old] && isIt(all[old]) ? all : undefined;
      });
    await known("the Secret in the ledger", ({ unnamed }) => unnamed === undefined);
    await named(next);
    await known("a Secret that is named no more", ({ checks = 0 }) => checks >= 3);
    assert.deepEqual(await events("RestartConfigRemoved"), [], "its time is not over");
    // A person sets its time back, so that it is over: what was written meanwhile is not lost.
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/sluice-db`;
    await eventually("an earlier time", patienceMs, async () => {
      const { metadata } = await stage.api.get<{ readonly metadata: Metadata }>(lease);
      const all = JSON.parse(metadata.annotations?.["sluice.dev/restart-configs"] ?? "{}");
      all[old].unnamed -= unnamedForMs;
      const annotations = { "sluice.dev/restart-configs": JSON.stringify(all) };
      await stage.api.patch(lease, { metadata: { resourceVersion: metadata.resourceVersion, annotations } });
      return true;
    });
    await eventually("the end of the Secret", patienceMs * 2, () =>
      stage.api.get(stage.path("secrets", old)).then(
        () => undefined,
        (error: ApiError) => error.status === 404 || undefined,
      ),
    );
    const [removed] = await eventually("the Event", patienceMs, async () => {
      const found = await events("RestartConfigRemoved");
      return found.length > 0 ? found : undefined;
    });
    assert.equal(removed?.involvedObject.name, old);
    assert.ok(await stage.api.get(stage.path("secrets", next)), "the one that is named stays");
    const { asked, forbidden } = await askedBy(stage.controlPlane, from, namespace, collector);
    assert.deepEqual(forbidden, ["get secrets"], "before the Role was there");
    assert.ok(!asked.includes("list secrets") && !asked.includes("watch secrets"), `${asked}`);
  });
});
