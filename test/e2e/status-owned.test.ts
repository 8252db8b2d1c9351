/** What the page and `kubectl sluice status` show of a FoundationDBCluster, with the rendered rights and without one of them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Status } from "../../functions/shared/contract/status.ts";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { createGroup, waitForGroupReady } from "../controlplane/fixtures.ts";
import { isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { isDefinition, Kubectl } from "../support/kubectl.ts";
import { Plugin } from "../support/plugin.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Server } from "../support/server.ts";
import { FoundationOperator } from "./foundationdb-operator.ts";

interface Role {
  readonly metadata: Metadata;
  readonly rules: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

const namespace = "foundation";
const core = `/api/v1/namespaces/${namespace}`;
const name = "orders";
const owner = `FoundationDBCluster.apps.foundationdb.org/${name}`;
const group = `owner:${owner}`;
const zones = ["zone-a", "zone-b", "zone-c"];
const ids = new Map(zones.flatMap((zone) => [1, 2].map((n) => [`${zone}-storage-${n}`, zone] as const)));
const leaving = "zone-a-storage-2";
const sick = `${name}-zone-c-storage-1`;
const works = "hold-process-groups,suspend-group,gc-suspended-groups,keep-ledgers";

describe("the status of a FoundationDBCluster on a real control plane", {
  skip: await skipWithoutControlPlane(),
}, () => {
  let controlPlane: ControlPlane;
  let api: Api;
  let kubectl: Kubectl;
  let plugin: Plugin;
  let operator: FoundationOperator;
  let kubeconfig: string;
  let role: string;
  const servers: Server[] = [];
  /** It shows the status, and serves nothing else. */
  let viewed: Server;

  before(async () => {
    controlPlane = await startControlPlane();
    [kubectl, plugin] = await Promise.all([Kubectl.open(controlPlane), Plugin.build(controlPlane)]);
    api = await Api.open(controlPlane, { userAgent: "sluice-test-status-owned" });
    const objects = await kubectl.buildIn(namespace, "standalone");
    await kubectl.apply(objects.filter(isDefinition));
    await kubectl.run("apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
    await kubectl.waitForDefinitions();
    await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    await kubectl.apply(objects.filter((one) => !isDefinition(one) && !isWebhook(one) && !isWorkload(one)));
    const { account, settings } = workloadOf(objects, "sluice");
    role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles/${account}`;
    kubeconfig = await kubeconfigOf(controlPlane, api, namespace, account);
    const db = await createGroup(controlPlane, { namespace, name: "db", zones: 2, pods: 1 });
    operator = await FoundationOperator.start(api, {
      ...{ namespace, name, ids },
      annotations: { "sluice.dev/suspend-duration": "1h" },
      spec: { automationOptions: { waitBetweenRemovalsSeconds: 0 } },
      // Also where this machine is busy the removal is seen before it is over.
      drainMs: 20_000,
    });
    await waitForGroupReady(controlPlane, db);
    const serve = async (FUNCTION: string) => {
      const own = { ...settings, FUNCTION, PORT: "0", TLS_PORT: "off" };
      const server = await Server.start({ kubeconfig, namespace, settings: own });
      await server.ready();
      servers.push(server);
      return server;
    };
    [viewed] = await Promise.all([serve("show-status"), serve(`${works},show-status`)]);
  });

  after(async () => {
    await operator?.stop();
    for (const server of servers) await server.kill();
    await Promise.all([plugin?.remove(), kubectl?.close(), api?.close()]);
    await controlPlane?.stop();
  });

  const ownedOf = ({ groups }: Status) => groups.find((one) => one.owner === owner);
  const groupsOf = ({ groups }: Status) => groups.map((one) => one.group).sort();
  /** What each server shows, and then `kubectl sluice status`, with the same rights. */
  const shown = async (line = `status -n ${namespace} -o json`): Promise<readonly Status[]> => {
    const served = await Promise.all(servers.map((server) => server.status()));
    const { code, stdout, stderr } = await plugin.sluice(line, kubeconfig);
    assert.equal(code, 0, stderr);
    return [...served, JSON.parse(stdout) as Status];
  };
  const until = (what: string, isSo: (status: Status) => boolean, line?: string) =>
    eventually(what, 45_000, async () => {
      const all = await shown(line);
      if (all.every(isSo)) return all;
      const log = servers.flatMap((server) => server.log.filter(({ level }) => level !== "info"));
      throw new Error(JSON.stringify([all.map(({ groups, leftOut }) => [groups.length, leftOut]), log]));
    });

  test("the page and kubectl sluice status show the cluster, the pod that is down, and why the other one waits", async () => {
    const status = { conditions: [{ type: "Ready", status: "False" }] };
    await api.patch(`${core}/pods/${sick}/status`, { status });
    await operator.change({ spec: { processGroupsToRemove: [leaving] } });
    const isWaiting = (one: Status) =>
      ownedOf(one)?.functions.some(({ recorded: { guard } }) => guard === "zones-down") === true;
    for (const one of await until("the guard zones-down", isWaiting)) {
      assert.deepEqual(groupsOf(one), ["db", group]);
      assert.deepEqual(one.leftOut, []);
      const { zones: seen = [], functions = [] } = ownedOf(one) ?? {};
      assert.deepEqual(
        seen.map((zone) => [zone.name, zone.wanted, zone.ready, zone.cells.map(({ cell }) => cell)]),
        [
          ["zone-a", 2, 2, ["ready"]],
          ["zone-b", 2, 2, ["ready"]],
          ["zone-c", 2, 1, ["not ready", "ready"]],
        ],
      );
      const [{ recorded } = assert.fail()] = functions.filter(({ function: by }) => by === "suspend-group");
      assert.match(recorded.sentence, /zone-c: 1 of 2 down \(1 not ready\)/);
    }
    const { stdout } = await plugin.sluice(`status ${group} -n ${namespace}`, kubeconfig);
    assert.ok(stdout.includes(`\n${namespace}/${group}: working, 5 of 6 updated, 5 ready`), stdout);
    assert.match(stdout, /\n {2}suspend-group: zones-down, for .+: .*zone-c: 1 of 2 down/);
    assert.match(stdout, /\nzone-c +1\/2 +1\/2 +1 of 1 +- +not ready: 0\n/);
  });

  /** The account may not do this any more. */
  async function takeAway(verb: string, resource: string): Promise<void> {
    const { rules } = await api.get<Role>(role);
    const left = rules.flatMap((rule) => {
      const verbs = rule.resources.includes(resource) ? rule.verbs.filter((one) => one !== verb) : rule.verbs;
      return verbs.length === 0 ? [] : [{ ...rule, verbs }];
    });
    await api.patch(role, { rules: left });
  }

  test("it shows the cluster without the right to list FoundationDBClusters; without that to list volume claims it names the right, and shows the rest", async () => {
    await takeAway("list", "foundationdbclusters");
    for (const one of await until("the cluster", (all) => ownedOf(all) !== undefined))
      assert.deepEqual(one.leftOut, []);
    await takeAway("list", "persistentvolumeclaims");
    const lack = "Sluice lacks the right to list persistentvolumeclaims: ";
    const isNamed = ({ leftOut }: Status) =>
      leftOut.some(({ part, why }) => part === `group ${namespace}/${group}` && why.startsWith(lack));
    for (const one of await until("the right named", isNamed)) {
      assert.deepEqual(groupsOf(one), ["db"]);
      assert.ok(one.leftOut.every(({ why }) => why.startsWith(lack)));
    }
    const { stdout } = await plugin.sluice(`status -n ${namespace}`, kubeconfig);
    assert.match(
      stdout,
      /^NOT SHOWN .*group foundation\/owner:\S+.*: Sluice lacks the right to list persistentvolumeclaims: /m,
    );
    assert.match(stdout, /^foundation\/db +2 /m);
  });

  test("the process that serves the status alone, and the command, have written nothing", async () => {
    assert.equal((await viewed.status()).groups.length, 1);
    const asked = new Map<string, Set<string>>([
      ["(show-status)", new Set()],
      ["kubectl-sluice/", new Set()],
    ]);
    const to = await auditPosition(controlPlane.auditLog);
    for await (const { userAgent, verb, resource } of readAudit(controlPlane.auditLog, { from: 0, to }, () => {}))
      for (const [by, its] of asked) if (userAgent.includes(by)) its.add(`${verb} ${resource}`);
    for (const [by, its] of asked) {
      assert.ok(its.has("list persistentvolumeclaims"), `${by}: ${[...its]}`);
      const writes = [...its].filter((one) => !/^(get|list|watch) /.test(one));
      assert.deepEqual(writes, [], by);
    }
  });
});
