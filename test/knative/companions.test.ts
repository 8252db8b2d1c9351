/** Scripts that users mount into their pods: that they are rendered as they are, and that the examples fit them. */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { readCompanions } from "../../knative/render/companions.ts";

const root = join(import.meta.dirname, "../..");

interface PodSpec {
  readonly terminationGracePeriodSeconds?: number;
  readonly volumes: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[];
  readonly containers: readonly {
    readonly env: readonly { readonly name: string; readonly value?: string }[];
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
    readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  }[];
}

interface Template {
  readonly template: { readonly spec: PodSpec };
}

interface Example {
  readonly kind: string;
  readonly spec: Template & {
    readonly terminationGracePeriodSeconds?: number;
    readonly override?: { readonly statefulSet: { readonly spec: Template } };
  };
}

async function exampleOf(path: string, kind: string): Promise<Example> {
  const objects = loadAll(await readFile(join(root, path), "utf8")) as unknown as readonly Example[];
  return objects.find((object) => object.kind === kind) ?? assert.fail(`${path} has no ${kind}`);
}

suite("companions", () => {
  test("a companion's ConfigMap has its script as it is, byte by byte", async () => {
    const companions = readCompanions();
    assert.ok(companions.some(({ name }) => name === "stop-gate"));
    for (const { name, scripts } of companions) {
      const [map] = loadAll(await readFile(join(root, "knative/base", name, `${name}.yaml`), "utf8")) as readonly {
        readonly data: Readonly<Record<string, string>>;
      }[];
      assert.deepEqual(map?.data, scripts);
      for (const [file, text] of Object.entries(scripts)) {
        const [path = ""] = globSync(`functions/*/${name}/${file}`, { cwd: root });
        assert.equal(text, await readFile(join(root, path), "utf8"));
      }
    }
  });

  test("two companions of one name are refused: only one of them could be mounted", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-companions-"));
    try {
      for (const name of ["one", "two"]) {
        await mkdir(join(folder, name, "gate"), { recursive: true });
        await writeFile(join(folder, name, "gate", "gate.sh"), "#!/bin/sh\n");
      }
      assert.throws(() => readCompanions(folder), /two companions are called gate: one\/gate, two\/gate/);
      await rm(join(folder, "two"), { recursive: true });
      assert.deepEqual(readCompanions(folder), [{ name: "gate", scripts: { "gate.sh": "#!/bin/sh\n" } }]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("the examples run the script that the ConfigMap has, and tell it the grace period that the pod has", async () => {
    const [cluster = ""] = globSync("functions/*/stop-gate/rabbitmqcluster.yaml", { cwd: root });
    const { spec } = await exampleOf(cluster, "RabbitmqCluster");
    const plain = await exampleOf("knative/examples/rabbitmq.yaml", "StatefulSet");
    const overridden = spec.override?.statefulSet.spec.template.spec ?? assert.fail("nothing is overridden");
    const [gate] = readCompanions().filter(({ name }) => name === "stop-gate");
    for (const [pod, grace] of [
      [overridden, spec.terminationGracePeriodSeconds],
      [plain.spec.template.spec, plain.spec.template.spec.terminationGracePeriodSeconds],
    ] as const) {
      const [container] = pod.containers;
      const setting = container?.env.find(({ name }) => name === "STOP_GATE_GRACE_SECONDS");
      assert.equal(setting?.value, String(grace));
      const volume = pod.volumes.find(({ configMap }) => configMap?.name === gate?.name)?.name;
      const at = container?.volumeMounts.find(({ name }) => name === volume)?.mountPath;
      const [script] = Object.keys(gate?.scripts ?? {});
      assert.deepEqual(container?.lifecycle.preStop.exec.command, ["sh", `${at}/${script}`]);
    }
  });
});
