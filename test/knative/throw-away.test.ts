/** What a new function needs: one is added to a copy of the tree, rendered there, and started there. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { promisify } from "node:util";
import { dump, load, loadAll } from "js-yaml";
import { isStandard } from "../../functions/shared/contract/definition.ts";
import { protocol } from "../../functions/shared/ledger/protocol.ts";
import { actsOutside } from "../../knative/render/outside.ts";
import { groupFunctions } from "../../triggers/table.ts";
import { eventually } from "../controlplane/api.ts";
import type { KindDefinition } from "../fake-cluster/objects.ts";
import { createWorldCluster } from "../fake-cluster/world-cluster.ts";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { changed, post } from "../support/posted.ts";
import { groupName, namespace, type ServedGroup, serveGroup } from "../support/served-group.ts";
import { Server } from "../support/server.ts";
import { parseScript } from "../support/start-script.ts";

const root = join(import.meta.dirname, "../..");
const name = "announce-outage";
/** As `kubectl get crd` lists it. */
const templates = "replicatemplates.rollout-operator.grafana.com";
/** All that is started and rendered. */
const parts = ["functions", "triggers", "knative", "package.json"];

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

interface Rendered {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules: readonly Rule[];
  readonly spec: {
    readonly mode: string;
    readonly serviceAccountName: string;
    readonly resources: readonly object[];
    readonly sink: { readonly ref: { readonly name: string } };
    readonly filters: readonly object[];
    readonly template: {
      readonly spec: {
        readonly serviceAccountName: string;
        readonly containers: readonly { readonly env: readonly { readonly name: string; readonly value: string }[] }[];
      };
    };
  };
}

/** Each verb on each resource, as `verb resource`. */
function verbsOf(objects: readonly Rendered[], kind: "Role" | "ClusterRole", role: string): string[] {
  const rules = objects.filter((one) => one.kind === kind && one.metadata.name === role).flatMap((one) => one.rules);
  return rules.flatMap(({ resources, verbs }) => resources.flatMap((one) => verbs.map((verb) => `${verb} ${one}`)));
}

suite("a throw-away function over ConfigMaps by their owner, in a copy of the tree", () => {
  let copy: string;
  let written: readonly string[];
  before(async () => {
    copy = await mkdtemp(join(tmpdir(), "sluice-throw-away-"));
    await Promise.all(parts.map((part) => cp(join(root, part), join(copy, part), { recursive: true })));
    await symlink(join(root, "node_modules"), join(copy, "node_modules"));
    await addFunction(copy);
    written = await render(copy);
  });
  after(() => rm(copy, { recursive: true, force: true }));

  const read = async (file: string) =>
    loadAll(await readFile(join(copy, "knative/base", file), "utf8")) as unknown as readonly Rendered[];

  test("one folder and its name in the table render its Role, source, Service and Trigger, and touch no other function's", async () => {
    const files = ["functions", "sources"].flatMap((folder) => [`${folder}/${name}`, `${folder}/kustomization`]);
    const touched = [...files, "fence/fence", "fence/guard", "standalone/standalone", "triggers/triggers"].map(
      (file) => `${file}.yaml`,
    );
    assert.deepEqual([...written].sort(), touched.sort());
    const [own, sources, triggers, standalone] = await Promise.all(
      [`functions/${name}`, `sources/${name}`, "triggers/triggers", "standalone/standalone"].map((file) =>
        read(`${file}.yaml`),
      ),
    );
    assert.ok(own !== undefined && sources !== undefined && triggers !== undefined && standalone !== undefined);
    assert.deepEqual(
      own.map(({ kind }) => kind),
      ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Service"],
    );
    const rights = verbsOf(own, "Role", name).filter((right) => right.endsWith(" configmaps"));
    assert.deepEqual(rights, ["get configmaps", "list configmaps", "patch configmaps"]);
    assert.deepEqual(verbsOf(own, "ClusterRole", `sluice:${name}`), ["get nodes"], "a Node is of no namespace");
    assert.equal(own.at(-1)?.spec.template.spec.serviceAccountName, name);
    const watcher = `${name}-source`;
    assert.deepEqual(verbsOf(sources, "Role", watcher), ["get configmaps", "list configmaps", "watch configmaps"]);
    assert.deepEqual(verbsOf(sources, "ClusterRole", `sluice:${watcher}`), ["get nodes", "list nodes", "watch nodes"]);
    const asked = sources.filter(({ kind }) => kind === "ApiServerSource").map(({ spec }) => spec);
    assert.deepEqual(
      asked.map(({ mode, resources, serviceAccountName, sink }) => [
        mode,
        resources,
        serviceAccountName,
        sink.ref.name,
      ]),
      ["ConfigMap", "Node"].map((kind) => ["Reference", [{ apiVersion: "v1", kind }], watcher, name]),
    );
    const ping = sources.find(({ kind }) => kind === "PingSource")?.spec;
    assert.equal(ping?.sink.ref.name, name);
    const trigger = triggers.find((one) => one.metadata.name === name);
    for (const kind of ["ConfigMap", "Node"])
      assert.ok(JSON.stringify(trigger?.spec.filters).includes(`{"exact":{"kind":"${kind}"}}`));
    // Where it watches by itself, it may.
    assert.ok(verbsOf(standalone, "Role", "sluice").includes("watch configmaps"));
    assert.ok(verbsOf(standalone, "ClusterRole", "sluice:sluice").includes("watch nodes"));
  });

  test("a kind that users name gets the rights that the function says it needs once it is listed, and those alone", async () => {
    const roles = async () =>
      await Promise.all([`functions/${name}`, "standalone/standalone"].map((file) => read(`${file}.yaml`)));
    const rightsIn = (objects: readonly Rendered[]) =>
      objects.flatMap(({ kind, metadata, rules = [] }) => rules.map((rule) => ({ kind, of: metadata.name, rule })));
    await listKinds(copy, []);
    await render(copy);
    const before = (await roles()).flatMap(rightsIn);
    await listKinds(copy, [templates], ["brokers.rollout-operator.grafana.com"]);
    // What acts outside of the served namespaces has no account in them.
    const inside = groupFunctions.filter((one) => one.kindNeeds !== undefined && isStandard(one) && !actsOutside(one));
    const naming = [name, ...inside.map((one) => one.name)];
    const functions = naming.map((one) => `functions/${one}.yaml`).sort();
    const written = [
      ...functions,
      "fence/fence.yaml",
      "fence/guard.yaml",
      "standalone/standalone.yaml",
      "outside/outside.yaml",
      "operator-account/operator-account.yaml",
    ];
    assert.deepEqual(await render(copy), written);
    const known = new Set(before.map((one) => JSON.stringify(one)));
    const added = (await roles()).flatMap(rightsIn).filter((one) => !known.has(JSON.stringify(one)));
    const right = (of: string, resource: string, ...verbs: string[]) => {
      const rule = { apiGroups: ["rollout-operator.grafana.com"], resources: [resource], verbs };
      return { kind: "Role", of, rule };
    };
    // The one that does everything has what all of them need.
    const scaled = [name, "sluice"].map((of) => right(of, "replicatemplates/scale", "get"));
    const all = [...scaled, right("sluice", "replicatemplates/status", "patch")];
    assert.deepEqual(added, [...all, right("sluice", "brokers", "get", "list", "patch")]);
  });

  test("a list of kinds that cannot be granted is an error with a message, and nothing is rendered", async () => {
    await listKinds(copy, [templates, "*.example.com"]);
    const refused = await render(copy).then(
      () => assert.fail("it was rendered"),
      (error: { code: number; stderr: string }) => error,
    );
    assert.equal(refused.code, 1);
    assert.equal(
      refused.stderr,
      'knative/kinds.yaml: "*.example.com" is a wildcard: list each kind by itself, as `kubectl get crd` does.\n',
    );
    await listKinds(copy, [templates], ["brokers.rollout-operator.grafana.com"]);
    assert.deepEqual(await render(copy), []);
  });

  test("started there, it finds its work by listing and by events, claims it, and tells it in Events, by its rights alone", async () => {
    const group = await serveGroup({ seed: 12, pods: 2, drop: 0 });
    let server: Server | undefined;
    try {
      const [first = "", second = ""] = group.group.statefulSets.map((one) => one.name);
      const kubeconfig = join(copy, "kubeconfig");
      await writeFile(kubeconfig, kubeconfigText(group.served.url, {}));
      const own = await read(`functions/${name}.yaml`);
      const [container] = own.at(-1)?.spec.template.spec.containers ?? [];
      const settings = Object.fromEntries((container?.env ?? []).map((one) => [one.name, one.value]));
      const { store } = group.world;
      store.create("nodes", "", { apiVersion: "v1", kind: "Node", metadata: { name: "node-1" } });
      createOutage(group, "lost-first", first, "node-1");
      const cluster = createWorldCluster(group.world);
      const readLedger = () => protocol.readLedger(cluster, { namespace, group: groupName });
      server = await Server.start({ checkout: copy, kubeconfig, namespace, settings });
      await server.ready();
      // Found by listing, for nothing has been posted; what is written at once sets no timer that could find the rest.
      await eventually("its wait in the ledger", 10_000, async () =>
        (await readLedger())?.verdicts[name]?.guard === "node-present" ? true : undefined,
      );
      store.delete("nodes", { namespace: "", name: "node-1" });
      assert.equal(await post(server, changed("Node", "", "node-1")), 204);
      await announced(group, ["lost-first"]);
      const resource = store.define(await definitionOfTemplates());
      store.create(resource, namespace, { kind: "ReplicaTemplate", metadata: { name: "yes" }, spec: { replicas: 0 } });
      const by = "ReplicaTemplate.rollout-operator.grafana.com/yes";
      createOutage(group, "lost-second", second, "node-2", { "approved-by": by });
      assert.equal(await post(server, changed("ConfigMap", namespace, "lost-second")), 204);
      await eventually("its wait for an approval", 10_000, async () =>
        (await readLedger())?.verdicts[name]?.guard === "not-approved" ? true : undefined,
      );
      store.patchScale(resource, { namespace, name: "yes" }, { spec: { replicas: 1 } });
      assert.equal(await post(server, changed("ConfigMap", namespace, "lost-second")), 204);
      await announced(group, ["lost-first", "lost-second"]);
      const ledger = await readLedger();
      assert.deepEqual(
        ledger?.claims.map((claim) => [
          claim.zone,
          claim.kind,
          claim.isKnown && claim.by,
          claim.isKnown && claim.terms,
        ]),
        [first, second].map((zone) => [zone, "node", name, "announced"]),
      );
      assert.equal(ledger?.verdicts[name]?.zone, second, "its verdict stands there, too");
      const rights = [...verbsOf(own, "Role", name), ...verbsOf(own, "ClusterRole", `sluice:${name}`)];
      const asked = group.served.requests().map(({ verb, resource }) => `${verb} ${resource}`);
      for (const one of ["list configmaps", "patch configmaps", "get replicatemplates/scale"])
        assert.ok(asked.includes(one), asked.join());
      assert.deepEqual(
        asked.filter((one) => !rights.includes(one)),
        [],
      );
    } finally {
      await server?.stop();
      await group.close();
    }
  });
});

/** One folder, and its name in the table. */
async function addFunction(copy: string): Promise<void> {
  const from = join(import.meta.dirname, "throw-away", name);
  await cp(from, join(copy, "functions", name), { recursive: true });
  for (const file of await readdir(from)) {
    const text = await readFile(join(from, file), "utf8");
    // As it would be written there.
    await writeFile(
      join(copy, "functions", name, file),
      text.replaceAll("../../../../functions/shared/", "../shared/"),
    );
  }
  const table = join(copy, "triggers/table.ts");
  const before = await readFile(table, "utf8");
  const list = "groupFunctions: readonly FunctionDefinition[] = [";
  assert.ok(before.includes(list), "the table has another form");
  const imported = `import { announceOutage } from "../functions/${name}/function.ts";\n`;
  await writeFile(table, imported + before.replace(list, `${list}announceOutage, `));
}

/** `npm run render`. Resolves to the files that it wrote. */
async function render(copy: string): Promise<readonly string[]> {
  const { scripts } = JSON.parse(await readFile(join(copy, "package.json"), "utf8"));
  const [, ...commandLine] = parseScript(scripts.render).words;
  const { stdout } = await promisify(execFile)(process.execPath, commandLine, { cwd: copy });
  return stdout.split("\n").flatMap((line) => /^knative\/base\/(.+)$/.exec(line)?.[1] ?? []);
}

/** Writes the lists of kinds that users may name. */
async function listKinds(copy: string, mirrored: readonly string[], owners: readonly string[] = []): Promise<void> {
  await writeFile(join(copy, "knative/kinds.yaml"), dump({ mirrored, owners }));
}

/** The ReplicaTemplate that is shipped. */
async function definitionOfTemplates(): Promise<KindDefinition> {
  const text = await readFile(join(root, "knative/base/crds/replicatemplates.yaml"), "utf8");
  const { spec } = load(text) as {
    spec: {
      group: string;
      scope: string;
      names: { kind: string; plural: string };
      versions: [{ name: string; subresources: object }];
    };
  };
  const { group, scope, names, versions } = spec;
  const [{ name: version, subresources }] = versions;
  return { group, version, ...names, isNamespaced: scope === "Namespaced", hasScale: "scale" in subresources };
}

/** A ConfigMap that says that the second pod of its owner is lost with a node. */
function createOutage(
  { world }: ServedGroup,
  configMap: string,
  owner: string,
  node: string,
  more: Readonly<Record<string, string>> = {},
): void {
  const { uid } = world.store.get("statefulsets", { namespace, name: owner }).metadata;
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "StatefulSet", name: owner, uid, controller: true }];
  const metadata = { name: configMap, ownerReferences };
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { ordinal: "1", node, ...more } };
  world.store.create("configmaps", namespace, body);
}

/** Resolves when the function's Events report exactly these ConfigMaps, and each of them names its claim. */
async function announced({ world: { store } }: ServedGroup, configMaps: readonly string[]): Promise<void> {
  await eventually(`Events about ${configMaps.join(" and ")}`, 10_000, async () => {
    const events = store.list("events", { namespace }).items.filter(({ reason }) => reason === "OutageAnnounced");
    return events.length === configMaps.length ? true : undefined;
  });
  const events = store.list("events", { namespace }).items.filter(({ reason }) => reason === "OutageAnnounced");
  assert.deepEqual(events.map(({ message }) => /says (\S+)$/.exec(message ?? "")?.[1]).sort(), [...configMaps].sort());
  for (const configMap of configMaps) {
    const { uid, annotations } = store.get("configmaps", { namespace, name: configMap }).metadata;
    assert.equal(annotations?.["example.com/outage"], `outage-${uid}`);
  }
}
