/** What `npm run render` writes: that it is what is committed, and what each manifest promises without a cluster. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { promisify } from "node:util";
import { loadAll } from "js-yaml";
import { advanceZoneRollout } from "../../functions/advance-zone-rollout/function.ts";
import { keepLedgers } from "../../functions/keep-ledgers/function.ts";
import { isStandard } from "../../functions/shared/contract/definition.ts";
import { resources } from "../../functions/shared/kubernetes/cluster.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { readCompanions } from "../../knative/render/companions.ts";
import { watchNeed } from "../../knative/render/events.ts";
import { needsOfKinds, parseKinds } from "../../knative/render/kinds.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { rightsOf } from "../../knative/render/rights.ts";
import { watchesOnDemand } from "../../knative/render/triggered.ts";
import { readSettings } from "../../triggers/settings/settings.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions, table } from "../../triggers/table.ts";

const root = join(import.meta.dirname, "../..");
const base = join(root, "knative/base");
const companions = readCompanions();
const kinds = parseKinds(readFileSync(join(root, "knative/kinds.yaml"), "utf8"));
const rendered = renderManifests({
  groupFunctions,
  admissionFunctions,
  cronFunctions,
  statusFunctions,
  companions,
  kinds,
});

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

interface Container {
  readonly image: string;
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly resources: { readonly limits: { readonly memory: string } };
  readonly readinessProbe: {
    readonly periodSeconds: number;
    readonly failureThreshold: number;
    readonly timeoutSeconds: number;
  };
  readonly livenessProbe: object;
}

interface Rendered {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly rules: readonly Rule[];
  readonly webhooks: readonly {
    readonly clientConfig: { readonly service: { readonly path: string } };
    readonly timeoutSeconds: number;
  }[];
  readonly spec: {
    readonly template: {
      readonly spec: { readonly containers: readonly Container[]; readonly terminationGracePeriodSeconds: number };
    };
    readonly resources: readonly { readonly kind: string }[];
    readonly mode: string;
    readonly groups: readonly {
      readonly rules: readonly { readonly annotations: Readonly<Record<string, string>> }[];
    }[];
  };
}

function objectsOf(file: string): readonly Rendered[] {
  return loadAll(rendered.get(file) ?? assert.fail(`${file} is not rendered`)) as unknown as Rendered[];
}

/** What overlays of opt-in functions install has tests of its own: `fencing.test.ts`, `restart.test.ts`. */
const isOptional = (file: string) => /^(fencing|restart)\b/.test(file);
const files = [...rendered.keys()].filter((file) => !file.endsWith("/kustomization.yaml") && !isOptional(file));
const objects = files.flatMap(objectsOf);
const ofKind = (kind: string, among: readonly Rendered[] = objects) => among.filter((object) => object.kind === kind);
const workloads = objects.filter(({ spec }) => spec?.template !== undefined);
const containers = workloads.flatMap(({ spec }) => spec.template.spec.containers);

/** As `group/resource verb`, or with the names of the objects in brackets. */
function rightsIn(rules: readonly Rule[]): string[] {
  return rules.flatMap(({ apiGroups, resources, verbs, resourceNames }) =>
    verbs.map((verb) => `${apiGroups}/${resources} ${verb}${resourceNames === undefined ? "" : ` [${resourceNames}]`}`),
  );
}

type Needing = Pick<(typeof table)[number], "needs" | "kindNeeds">;
const needsOf = (of: Needing) => [...of.needs, ...needsOfKinds(of.kindNeeds ?? [], kinds)];
function rightsNeeded(needs: (typeof table)[number]["needs"]): string[] {
  return rightsIn(
    needs.map(({ group, resource, verbs, namesOfNamespace, names }) => {
      const resourceNames = names ?? namesOfNamespace?.map((name) => `${name}-default`);
      const rule = { apiGroups: [group], resources: [resource], verbs };
      return resourceNames === undefined ? rule : { ...rule, resourceNames };
    }),
  );
}

const standard = groupFunctions.filter(isStandard);
/** What runs outside of the namespaces that are served, and not as a function that comes and goes. */
const outside = standard.filter(({ keyedBy }) => keyedBy === "namespaces");
const inside = standard.filter((definition) => !outside.includes(definition));

const sorted = (texts: readonly string[]) => [...new Set(texts)].sort();

suite("rendered manifests", () => {
  test("what is committed below knative/base is what is rendered, file by file", () => {
    const committed = globSync("*/*.yaml", { cwd: base }).filter((path) => !path.startsWith("crds/"));
    assert.deepEqual(committed.sort(), [...rendered.keys()].sort(), "run npm run render");
    for (const [path, text] of rendered) assert.equal(readFileSync(join(base, path), "utf8"), text, path);
  });

  test("a function has the rights that it needs and none besides: to watch where its reconciles decide about groups", () => {
    const watching = inside.filter(watchesOnDemand);
    for (const { name, ...definition } of [...inside, ...cronFunctions]) {
      const rules = objectsOf(`functions/${name}.yaml`).flatMap((object) => object.rules ?? []);
      const isWatching = watching.some((one) => one.name === name);
      const needed = rightsNeeded(needsOf(definition)).filter((right) => isWatching || !/ watch\b/.test(right));
      assert.deepEqual(sorted(rightsIn(rules)), sorted(needed), name);
      const manifest = rendered.get(`functions/${name}.yaml`) ?? "";
      assert.equal(/name: VIEWS\n\s+value: awake/.test(manifest), isWatching, name);
      assert.equal(/name: GATHER_MS\n\s+value: '50'/.test(manifest), isWatching, name);
    }
    assert.ok(watching.includes(advanceZoneRollout) && !watching.includes(keepLedgers));
  });

  test("a replica that ends is seen to be unready while it still answers reviews, and answers the last of them within its grace", () => {
    const { shutdownDelayMs, drainTimeoutMs } = readSettings({}).settings;
    const longestReviewMs =
      1_000 * Math.max(...admissionFunctions.map(({ registration }) => registration.timeoutSeconds));
    const written = objects.flatMap(({ webhooks = [] }) =>
      webhooks.map(({ timeoutSeconds }) => 1_000 * timeoutSeconds),
    );
    assert.equal(Math.max(...written), longestReviewMs);
    const deployments = ofKind("Deployment").filter(({ metadata }) => metadata.name !== "sluice-outside");
    assert.equal(deployments.length, 2);
    for (const { spec } of deployments) {
      const { containers, terminationGracePeriodSeconds } = spec.template.spec;
      const graceMs = 1_000 * terminationGracePeriodSeconds;
      assert.ok(graceMs > shutdownDelayMs + longestReviewMs, `${graceMs} ms for the reviews`);
      assert.ok(graceMs > drainTimeoutMs, `${graceMs} ms for the queued work`);
      for (const { readinessProbe } of containers) {
        const { periodSeconds, failureThreshold, timeoutSeconds } = readinessProbe;
        const unreadyMs = 1_000 * (periodSeconds * failureThreshold + timeoutSeconds);
        assert.ok(unreadyMs < shutdownDelayMs, `unready after ${unreadyMs} ms`);
      }
    }
  });

  test("each Deployment that answers reviews shows the status, and to clients inside of its pod alone; nothing else does", () => {
    for (const { metadata, spec } of ofKind("Deployment")) {
      const [container] = spec.template.spec.containers;
      const env: readonly { readonly name: string; readonly value?: string }[] = container?.env ?? [];
      const { value } = env.find(({ name }) => name === "STATUS_LISTEN") ?? {};
      const isShown = metadata.name !== "sluice-outside";
      assert.equal(value, isShown ? "127.0.0.1:8002" : undefined, metadata.name);
    }
    const named = [...rendered].filter(([, text]) => text.includes("STATUS_LISTEN")).map(([path]) => path);
    assert.deepEqual(named.sort(), ["admission/admission.yaml", "standalone/standalone.yaml"]);
  });

  test("what acts where a namespace ends runs outside of it, with the rights that it needs and none besides, bound in the cluster", () => {
    const rules = objectsOf("outside/outside.yaml").flatMap((object) => object.rules ?? []);
    // By that the guard of a namespace lets it take our finalizers away, though it may delete no volume claim.
    const repair = { group: "sluice.dev", resource: "words", verbs: ["repair"] };
    const needed = [...outside.flatMap(({ needs }) => needs), repair];
    assert.deepEqual(sorted(rightsIn(rules)), sorted(rightsNeeded(needed)));
    const kinds = objectsOf("outside/outside.yaml").map(({ kind }) => kind);
    assert.ok(kinds.includes("ClusterRoleBinding") && !kinds.includes("RoleBinding"), kinds.join());
  });

  test("standalone has the rights of all functions, and besides them only that to get Events, for the plugin in its pod", () => {
    const rules = objectsOf("standalone/standalone.yaml").flatMap((object) => object.rules ?? []);
    // What triggers a function on Knative is watched by the account of its source, and here by the process itself.
    const watched = standard.flatMap(({ watches }) => watches.map(watchNeed));
    const needed = rightsNeeded([...table.filter(isStandard).flatMap(needsOf), ...watched]);
    assert.deepEqual(sorted(rightsIn(rules)), sorted([...needed, "/events get"]));
  });

  test("the process that answers reviews deletes no pod, writes no Secret and no webhook configuration", () => {
    const rules = objectsOf("admission/admission.yaml").flatMap((object) => object.rules ?? []);
    const needed = rightsNeeded([...admissionFunctions, ...statusFunctions].flatMap(({ needs }) => needs));
    const ofThePort = [
      "/secrets get [rollout-operator-self-signed-certificate]",
      ...["mutating", "validating"].flatMap((kind) =>
        ["list", "watch"].map((verb) => `admissionregistration.k8s.io/${kind}webhookconfigurations ${verb}`),
      ),
    ];
    assert.deepEqual(sorted(rightsIn(rules)), sorted([...needed, ...ofThePort]));
  });

  test("what is of the whole cluster is needed in a ClusterRole, subresources too, and all else in a Role", () => {
    const needs = [
      { group: "", resource: "nodes", verbs: ["get"] },
      { group: "", resource: "nodes/status", verbs: ["patch"] },
      { group: "", resource: "persistentvolumes", verbs: ["list"] },
      { group: "", resource: "persistentvolumeclaims", verbs: ["get"] },
      // A kind of another group that is called the same is another kind.
      { group: "example.com", resource: "nodes", verbs: ["get"] },
    ];
    const roles = rightsOf({ name: "some", needs }) as readonly { kind: string; rules?: readonly Rule[] }[];
    const rightsOfKind = (kind: string) => roles.filter((one) => one.kind === kind).flatMap((one) => one.rules ?? []);
    assert.deepEqual(rightsIn(rightsOfKind("ClusterRole")), [
      "/nodes get",
      "/nodes/status patch",
      "/persistentvolumes list",
    ]);
    assert.deepEqual(rightsIn(rightsOfKind("Role")), ["/persistentvolumeclaims get", "example.com/nodes get"]);
  });

  test("no right has a wildcard, and of Secrets only the one is read or written, and none is made", () => {
    const rules = objects.flatMap((object) => object.rules ?? []);
    assert.ok(rules.length > 10);
    for (const rule of rules) {
      const { apiGroups, resources, verbs, resourceNames = [] } = rule;
      assert.ok(![...apiGroups, ...resources, ...verbs].includes("*"), JSON.stringify(rule));
      if (!resources.includes("secrets")) continue;
      assert.match(`${resourceNames}`, /^rollout-operator-self-signed-certificate(,certificate)?$/); // The chart's name.
      assert.ok(!verbs.includes("create"), JSON.stringify(rule));
    }
  });

  test("the one right to change what others may own, on Leases, is reported where accounts are swapped, with the names that are ours", () => {
    const rules = objects
      .flatMap((object) => object.rules ?? [])
      .filter(({ resources }) => resources.includes("leases"));
    assert.ok(rules.length > 0 && rules.every(({ resourceNames }) => resourceNames === undefined));
    const migration = readFileSync(join(root, "knative/from-rollout-operator.md"), "utf8").replaceAll("\n", " ");
    assert.match(migration, /rights on `leases` are for every Lease of the namespace/);
    const [, prefix = "", digits = ""] =
      /called `(\S+-)GROUP`, or `\1` and (\d+) hexadecimal digits/.exec(migration) ?? [];
    assert.equal(ledgerName("ingester"), `${prefix}ingester`);
    assert.match(ledgerName("no name"), new RegExp(`^${prefix}[0-9a-f]{${digits}}$`));
  });

  test("webhook configurations are changed by name alone, and each that is rendered is among those names, by its kind", () => {
    const changing = objects
      .flatMap((object) => object.rules ?? [])
      .filter(({ apiGroups, verbs }) => apiGroups.includes("admissionregistration.k8s.io") && verbs.includes("patch"));
    assert.equal(changing.length, 4, "two kinds, for a function by itself and for a process that does everything");
    for (const { resourceNames, verbs } of changing) assert.ok(resourceNames?.length && verbs.length === 1);
    const configurations = objects.filter(({ kind }) => kind.endsWith("WebhookConfiguration"));
    assert.ok(configurations.length >= 2);
    for (const { kind, metadata } of configurations) {
      const rules = changing.filter(({ resources }) => resources.includes(`${kind.toLowerCase()}s`));
      assert.ok(
        rules.length === 2 && rules.every(({ resourceNames }) => resourceNames?.includes(metadata.name)),
        metadata.name,
      );
    }
  });

  test("every container is unprivileged on a read-only root, probed, and bounded in memory", () => {
    assert.equal(workloads.length, inside.length + cronFunctions.length + 3);
    for (const { securityContext, resources, readinessProbe, livenessProbe } of containers) {
      assert.deepEqual(securityContext, {
        allowPrivilegeEscalation: false,
        capabilities: { drop: ["ALL"] },
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
        runAsUser: 65_532,
        seccompProfile: { type: "RuntimeDefault" },
      });
      assert.match(resources.limits.memory, /^\d+Mi$/);
      assert.match(JSON.stringify(readinessProbe), /"path":"\/readyz"/);
      assert.match(JSON.stringify(livenessProbe), /"path":"\/healthz"/);
    }
  });

  test("the image is of a registry that cannot exist, and a user who renders or reads it is told so", async () => {
    const images = new Set(containers.map(({ image }) => image));
    assert.equal(images.size, 1);
    const [registry = "", ...rest] = [...images].join().split("/");
    assert.match(registry, /^[a-z.-]+\.invalid$/);
    const name = `${registry}/${rest.join("/").replace(/:.*/, "")}`;
    const message = `The image ${name} is a placeholder, and no registry has it: name your own in \`images\` of your kustomization.`;
    for (const [path, text] of rendered) {
      if (path.startsWith("fencing")) continue;
      assert.equal(text.includes(`# ${message}\n`), text.includes("image: "), path);
    }
    const folder = await mkdtemp(join(tmpdir(), "sluice-render-"));
    const { stdout } = await promisify(execFile)(process.execPath, [join(root, "knative/render/main.ts"), folder]);
    await rm(folder, { recursive: true });
    assert.equal(stdout.trim().split("\n").at(-1), message);
    const text = readFileSync(join(root, "knative/README.md"), "utf8");
    assert.match(text, new RegExp(`\`${name}\` is a placeholder`));
    assert.match(text, new RegExp(`name: ${name}\\b`));
    assert.doesNotMatch(text, /ghcr\.io/);
  });

  test("Sluice reads the settings of every workload without a mistake", () => {
    for (const { metadata, spec } of workloads) {
      const env = spec.template.spec.containers.flatMap((container) => container.env);
      const { mistakes } = readSettings(Object.fromEntries(env.map(({ name, value }) => [name, value])));
      assert.deepEqual(mistakes, [], metadata.name);
    }
  });

  test("the sources of a function send references to what triggers it, and nothing else", () => {
    for (const { name, watches = [] } of [...inside, ...cronFunctions]) {
      // What an operator brings has sources of its own.
      const files = [...rendered.keys()].filter((path) => /^sources/.test(path) && path.endsWith(`/${name}.yaml`));
      const sources = files.flatMap((file) => ofKind("ApiServerSource", objectsOf(file)));
      const watched = sources.flatMap(({ spec }) => spec.resources.map(({ kind }) => kind));
      assert.deepEqual(watched.sort(), watches.map(({ resource }) => resources[resource].kind).sort());
      for (const { spec } of sources) assert.equal(spec.mode, "Reference");
    }
    assert.ok(cronFunctions.some(({ watches = [] }) => watches.length > 0));
    const scheduled = inside.filter(({ schedule }) => schedule !== undefined);
    assert.ok(scheduled.length > 0);
    const pings = inside.length + cronFunctions.length + scheduled.length;
    assert.equal(ofKind("PingSource").length, pings, "each one sweeps, and some have a schedule of their own");
    for (const { name, schedule } of scheduled) {
      const own = ofKind("PingSource").find(({ metadata }) => metadata.name === `${name}-due`);
      assert.ok(own !== undefined && JSON.stringify(own).includes(`"*/${schedule?.everySeconds} * * * * *"`), name);
      const trigger = ofKind("Trigger").find(({ metadata }) => metadata.name === name);
      assert.ok(JSON.stringify(trigger).includes(`/pingsources/${name}-due`), "a broker leads its ticks to it");
    }
    assert.equal(ofKind("Trigger").length, inside.length + cronFunctions.length);
  });

  test("changes of webhook configurations with the label of a namespace trigger rotate-certificate, with a broker by the label alone", () => {
    const kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    const key = "grafana.com/namespace";
    const sources = ofKind("ApiServerSource", objectsOf("sources/rotate-certificate.yaml"));
    const apiVersion = "admissionregistration.k8s.io/v1";
    assert.deepEqual(
      sources.flatMap(({ spec }) => spec.resources),
      kinds.map((kind) => ({ apiVersion, kind, selector: { matchExpressions: [{ key, operator: "Exists" }] } })),
    );
    const trigger = JSON.stringify(ofKind("Trigger").find(({ metadata }) => metadata.name === "rotate-certificate"));
    for (const kind of kinds)
      assert.ok(trigger.includes(`{"exact":{"kind":"${kind}"}},{"exact":{"selectedby":"${key}"}}`));
    assert.ok(trigger.includes("/pingsources/rotate-certificate"), "cron triggers it as well");
    const manifest = rendered.get("functions/rotate-certificate.yaml") ?? "";
    assert.doesNotMatch(manifest, /name: VIEWS/);
  });

  test("every admission function is asked where it listens, under the labels that give it a caBundle", () => {
    const configurations = objects.filter(({ kind }) => kind.endsWith("WebhookConfiguration"));
    const asked = configurations.flatMap(({ webhooks }) => webhooks.map((one) => one.clientConfig.service.path));
    assert.equal(asked.length, admissionFunctions.length);
    for (const { name, paths } of admissionFunctions)
      assert.ok(
        paths.some((path) => asked.includes(path)),
        name,
      );
    for (const { metadata } of configurations) {
      assert.equal(metadata.labels["grafana.com/inject-rollout-operator-ca"], "true");
      assert.equal(metadata.labels["grafana.com/namespace"], "default");
    }
  });

  test("the selector of an upgrade leaves out the webhook configurations and nothing else, so that they come last", () => {
    const readme = readFileSync(join(root, "knative/README.md"), "utf8");
    const [, label = ""] = /^kubectl apply -k \. --selector '!(\S+)'$/m.exec(readme) ?? [];
    const left = objects.filter(({ metadata }) => label in (metadata.labels ?? {}));
    assert.ok(left.length > 0, label);
    assert.deepEqual(
      left,
      objects.filter(({ kind }) => kind.endsWith("WebhookConfiguration")),
    );
  });

  test("the README counts the adapters that run in each namespace", () => {
    const readme = readFileSync(join(root, "knative/README.md"), "utf8");
    const [, count = ""] = /There are (\w+) in each namespace that has a Sluice/.exec(readme) ?? [];
    const pattern =
      "none one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen";
    assert.equal(pattern.split(" ").indexOf(count), ofKind("ApiServerSource").length);
  });

  test("an admission function that would be asked where it does not listen is not rendered, but refused", () => {
    const [first] = admissionFunctions;
    assert.ok(first !== undefined);
    const foreign = { ...first, name: "decide-nothing", paths: ["/elsewhere"] };
    const functions = { groupFunctions, admissionFunctions: [foreign], cronFunctions };
    assert.throws(
      () => renderManifests(functions),
      /decide-nothing listens at \/elsewhere, and is registered for \/pods\/eviction\/pin/,
    );
  });
});
