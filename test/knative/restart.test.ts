/** The overlay `restart` as `npm run render` writes it: its rights, settings and sources, and that no other overlay has them. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { resources } from "../../functions/shared/kubernetes/cluster.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import type { Manifest } from "../../knative/render/object.ts";
import { concernsGroups } from "../../knative/render/restart.ts";
import { readSettings } from "../../triggers/settings/settings.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";

const rendered = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions });
const served = groupFunctions.filter(concernsGroups);

interface Rendered extends Manifest {
  readonly rules?: readonly { readonly apiGroups: string[]; readonly resources: string[]; readonly verbs: string[] }[];
  readonly spec: {
    readonly replicas?: number;
    readonly schedule?: string;
    readonly resources?: readonly { readonly kind: string; readonly selector?: object }[];
    readonly template: {
      readonly spec: {
        readonly containers: readonly { readonly env: readonly { readonly name: string; readonly value: string }[] }[];
      };
    };
  };
}

function objectsIn(file: string): readonly Rendered[] {
  return loadAll(rendered.get(file) ?? assert.fail(`${file} is not rendered`)) as unknown as Rendered[];
}

/** As `group/resource verb`, of the account of that name. */
function rightsIn(file: string, name: string): string[] {
  const roles = objectsIn(file).filter(({ kind, metadata }) => /^(Cluster)?Role$/.test(kind) && metadata.name === name);
  const rules = roles.flatMap((role) => role.rules ?? []);
  return rules.flatMap(({ apiGroups, resources, verbs }) => verbs.map((verb) => `${apiGroups}/${resources} ${verb}`));
}

function settingsIn(objects: readonly Rendered[], kind: string) {
  const workload = objects.find((one) => one.kind === kind) ?? assert.fail(`no ${kind}`);
  const [{ env }] = workload.spec.template.spec.containers as [{ env: { name: string; value: string }[] }];
  return readSettings(Object.fromEntries(env.map(({ name, value }) => [name, value])));
}

suite("the overlay of restarts", () => {
  test("gives its account what the definition says and the right to edit ledgers, all in one namespace, and none to Secrets", () => {
    assert.deepEqual(
      served.map(({ name }) => name),
      ["advance-process-restart", "gc-restart-config"],
    );
    for (const { name, needs, watches } of served) {
      const needed = needs.flatMap(({ group, resource, verbs }) => verbs.map((verb) => `${group}/${resource} ${verb}`));
      const watched = watches.flatMap(({ resource }) =>
        ["list", "watch"].map((verb) => `${resources[resource].group}/${resource} ${verb}`),
      );
      const granted = rightsIn(`restart/${name}.yaml`, name);
      assert.deepEqual(new Set(granted), new Set([...needed, ...watched, "sluice.dev/ledgers edit"]));
      assert.deepEqual(rightsIn(`restart-knative/${name}.yaml`, name).toSorted(), granted.toSorted());
      assert.doesNotMatch(granted.join(), /secrets|\*/);
    }
    const files = [...rendered.keys()].filter((path) => /^restart.*(?<!kustomization)\.yaml$/.test(path));
    const kinds = new Set(files.flatMap(objectsIn).map(({ kind }) => kind));
    assert.ok(![...kinds].some((kind) => kind.startsWith("ClusterRole")), [...kinds].join());
  });

  test("runs each function alone, as two replicas that answer no reviews, or on Knative", () => {
    for (const { name } of served) {
      const replicas = objectsIn(`restart/${name}.yaml`);
      const { settings, mistakes } = settingsIn(replicas, "Deployment");
      assert.deepEqual([settings.functions, settings.tlsPort, settings.port, mistakes], [[name], "off", 8001, []]);
      const { spec } = replicas.find(({ kind }) => kind === "Deployment") ?? assert.fail("no Deployment");
      assert.equal(spec.replicas, 2);
      assert.ok(replicas.some(({ kind }) => kind === "PodDisruptionBudget"));
      const onKnative = settingsIn(objectsIn(`restart-knative/${name}.yaml`), "Service");
      assert.deepEqual([onKnative.settings.functions, onKnative.mistakes], [[name], []]);
    }
  });

  test("is triggered on Knative by what the function watches, by its own schedule if it has one, and by the sweep", () => {
    for (const { name, watches, schedule } of served) {
      const sources = objectsIn(`restart-knative/${name}.yaml`).filter((one) => one.apiVersion.startsWith("sources."));
      const pings = sources.filter(({ kind }) => kind === "PingSource").map(({ spec }) => spec.schedule);
      assert.deepEqual(pings, ["*/5 * * * *", ...(schedule ? [`*/${schedule.everySeconds} * * * * *`] : [])]);
      const watched = sources.flatMap(({ spec }) => spec.resources ?? []);
      assert.deepEqual(
        watched.map(({ kind }) => kind),
        watches.map(({ resource }) => resources[resource].kind),
      );
      assert.ok(watched.every(({ selector }) => selector !== undefined));
      const sinks = sources.map((source) => (source.spec as unknown as { sink: { ref: { name: string } } }).sink.ref);
      assert.deepEqual(new Set(sinks.map((one) => one.name)), new Set([name]));
    }
  });

  test("has policies of its own names, which limit its account to what the definition changes", () => {
    const policies = objectsIn("restart-policy/policies.yaml");
    assert.deepEqual(
      [...new Set(policies.map(({ metadata }) => metadata.name))],
      ["sluice-fence-restart-objects.default", "sluice-fence-restart-leases.default"],
    );
    const text = rendered.get("restart-policy/policies.yaml") ?? "";
    for (const { name, needs } of served)
      for (const path of needs.flatMap(({ changes = [] }) => changes))
        assert.ok(text.includes(path), `${name} ${path}`);
  });

  test("leaves every other file as it is without it, and is in no other overlay", () => {
    const without = renderManifests({
      groupFunctions: groupFunctions.filter((definition) => !concernsGroups(definition)),
      admissionFunctions,
      cronFunctions,
      statusFunctions,
    });
    const others = [...rendered].filter(([path]) => !path.startsWith("restart"));
    assert.deepEqual(new Map(others), without);
    const knative = join(import.meta.dirname, "../../knative");
    const files = globSync("{overlays,base}/*/*.yaml", { cwd: knative }).filter((path) => !/\/restart\b/.test(path));
    assert.ok(files.length > 50);
    for (const path of files) {
      const text = readFileSync(join(knative, path), "utf8");
      for (const { name } of served) assert.ok(!text.includes(name), `${path} names ${name}`);
    }
  });
});
