/** The CRDs of Knative and of prometheus-operator, from their Go modules: pinned by version and by content. */
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

interface GoModule {
  readonly path: string;
  readonly version: string;
  /** As Go computes it over all files. */
  readonly sum: string;
  readonly files: readonly string[];
}

const modules: readonly GoModule[] = [
  {
    path: "knative.dev/eventing",
    version: "v0.49.2",
    sum: "h1:eUrW+9EHznHGS/cwO/SpCIVqY+ZRyoRO+n0RLnYlIj0=",
    files: ["apiserversource", "pingsource", "broker", "trigger"].map((name) => `config/core/resources/${name}.yaml`),
  },
  {
    path: "knative.dev/serving",
    version: "v0.50.0",
    sum: "h1:9XUQq2yqUPN1YZUuGH6nF8IMvuumNvGXzCrSTYu44bA=",
    files: ["config/core/300-resources/service.yaml"],
  },
  {
    path: "github.com/prometheus-operator/prometheus-operator",
    version: "v0.85.0",
    sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    files: ["prometheusrules", "servicemonitors"].map(
      (name) => `example/prometheus-operator-crd/monitoring.coreos.com_${name}.yaml`,
    ),
  },
];

/** Fetches what Go's own cache does not hold; resolves to the paths of the CRDs. Throws without Go, or when a module differs. */
export async function ensureSchemas(): Promise<readonly string[]> {
  const wanted = modules.map(({ path, version }) => `${path}@${version}`);
  // Beside no go.mod, so that nothing but these modules is fetched.
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", ...wanted], { cwd: tmpdir() });
  const found = JSON.parse(`[${stdout.replaceAll(/^\}\n\{/gm, "},{")}]`) as {
    Path: string;
    Sum: string;
    Dir: string;
  }[];
  return modules.flatMap(({ path, sum, files }) => {
    const module = found.find((one) => one.Path === path);
    if (module?.Sum !== sum) throw new Error(`${path} has the sum ${module?.Sum}, and ${sum} is pinned`);
    return files.map((file) => join(module.Dir, file));
  });
}
