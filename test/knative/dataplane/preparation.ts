import { readFile } from "node:fs/promises";
import { loadAll } from "js-yaml";
import { type Built, isDefinition, type Kubectl } from "../../support/kubectl.ts";
import { findBuilt, objectsOf } from "./assets.ts";
import { SYSTEM_NAMESPACE } from "./settings.ts";

/** What the dispatcher wants to be true of an InMemoryChannel, besides Ready, before it serves it. */
export const channelConditions = [
  "DispatcherReady",
  "ServiceReady",
  "EndpointsReady",
  "Addressable",
  "ChannelServiceReady",
  "DeadLetterSinkResolved",
  "EventPoliciesReady",
];

/**
 * Puts into a cluster what the programs of eventing look for when they start: Knative's CRDs and ConfigMaps, as they are
 * released with the programs. Rejects when the programs are not built, or when the API server refuses an object.
 */
export async function prepareEventing(kubectl: Kubectl): Promise<void> {
  const dataPlane = await findBuilt();
  if (dataPlane === undefined) throw new Error("Knative's programs are not built: see findDataPlane");
  const texts = await Promise.all(objectsOf(dataPlane).map((path) => readFile(path, "utf8")));
  const objects = texts.flatMap((text) => loadAll(text) as unknown as Built[]).map(withoutConversion);
  await kubectl.apply([{ apiVersion: "v1", kind: "Namespace", metadata: { name: SYSTEM_NAMESPACE } }, ...objects]);
  await kubectl.waitForDefinitions();
}

/** Eventing's own webhook, which converts objects of older versions, does not run here. There are no such objects. */
function withoutConversion(object: Built): Built {
  if (!isDefinition(object)) return object;
  const { spec } = object as Built & { readonly spec: object };
  return { ...object, spec: { ...spec, conversion: { strategy: "None" } } } as Built;
}
