import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { loadAll } from "js-yaml";
import type { Built, Kubectl } from "../kubectl.ts";
import { eventingSources } from "./assets.ts";
import { SYSTEM_NAMESPACE } from "./settings.ts";

/** What the programs list and watch, and ApiServerSources. */
const definitions = [
  ...["apiserversource", "broker", "eventpolicy", "eventtype", "pingsource", "subscription", "trigger"].map(
    (name) => `core/resources/${name}.yaml`,
  ),
  "channels/in-memory-channel/resources/in-memory-channel.yaml",
];

/**
 * Puts into a cluster what the programs of eventing look for when they start: Knative's CRDs and ConfigMaps, as they are
 * released with the programs. Rejects when the API server refuses one.
 */
export async function prepareEventing(kubectl: Kubectl): Promise<void> {
  const folder = join(await eventingSources(), "config");
  const maps = (await readdir(join(folder, "core/configmaps"))).filter((name) => name.endsWith(".yaml"));
  const paths = [...definitions, ...maps.map((name) => `core/configmaps/${name}`)];
  const texts = await Promise.all(paths.map((path) => readFile(join(folder, path), "utf8")));
  const objects = texts.flatMap((text) => loadAll(text) as unknown as Built[]).map(withoutConversion);
  await kubectl.apply([{ apiVersion: "v1", kind: "Namespace", metadata: { name: SYSTEM_NAMESPACE } }, ...objects]);
  await kubectl.run("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
}

/** Eventing's own webhook, which converts objects of older versions, does not run here. There are no such objects. */
function withoutConversion(object: Built): Built {
  if (object.kind !== "CustomResourceDefinition") return object;
  const { spec } = object as Built & { readonly spec: object };
  return { ...object, spec: { ...spec, conversion: { strategy: "None" } } } as Built;
}
