/** The example of a pod whose process can be restarted. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { loadAll } from "js-yaml";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import type { Built } from "../support/kubectl.ts";

interface Container {
  readonly name: string;
  readonly command?: readonly string[];
  readonly env: readonly { readonly name: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe: object;
  readonly livenessProbe: { readonly exec?: { readonly command: readonly string[] } };
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly subPath?: string }[];
  readonly restartPolicy?: string;
}

export interface ExampleSet extends Built {
  readonly metadata: Metadata;
  readonly spec: {
    readonly serviceName: string;
    readonly template: {
      readonly metadata: object;
      readonly spec: {
        readonly securityContext: { readonly fsGroup?: number };
        readonly containers: readonly [Container];
        readonly initContainers: readonly [Container];
        readonly volumes: readonly { readonly name: string }[];
      };
    };
  };
}

/** All objects of the example. */
export async function exampleObjects(): Promise<readonly Built[]> {
  const text = await readFile(join(import.meta.dirname, "../../knative/examples/restart.yaml"), "utf8");
  return loadAll(text) as unknown as readonly Built[];
}

/** The object of that kind. */
export function ofKind<B extends Built = Built>(objects: readonly Built[], kind: string): B {
  const found = objects.find((one) => one.kind === kind);
  if (found === undefined) throw new Error(`the example has no ${kind}`);
  return found as B;
}
