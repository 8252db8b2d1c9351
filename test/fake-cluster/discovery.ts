/** The discovery documents for the served types, as kube-apiserver v1.36 has them. */
import { traitsOf } from "./objects.ts";
import type { Store } from "./store.ts";

/** Paths of discovery documents: of a group, of one of its versions, or of the core group's version. */
export const discoveryPath = /^\/(?:api\/v1|apis\/[^/]+(?:\/[^/]+)?)$/;

/** Undefined if nothing of the group or version in the path is served. */
export function discoveryDocument(store: Store, path: string): object | undefined {
  const served = store.served().map(traitsOf);
  const [, root, group = "", version = ""] = path.split("/");
  const groupVersion = root === "api" ? group : `${group}/${version}`;
  return root === "api" || version !== "" ? resourceList(groupVersion, served) : groupDocument(group, served);
}

type Traits = ReturnType<typeof traitsOf>;

function resourceList(groupVersion: string, served: readonly Traits[]): object | undefined {
  const ours = served.filter(({ apiVersion }) => apiVersion === groupVersion);
  if (ours.length === 0) return undefined;
  const resources = ours.flatMap(({ plural, kind, isNamespaced, hasStatus, hasScale }) => {
    const part = (name: string, more: object) => ({ name, singularName: "", namespaced: isNamespaced, ...more });
    return [
      { ...part(plural, { kind }), singularName: kind.toLowerCase(), verbs: objectVerbs },
      ...(hasStatus ? [part(`${plural}/status`, { kind, verbs: partVerbs })] : []),
      ...(hasScale
        ? [part(`${plural}/scale`, { group: "autoscaling", version: "v1", kind: "Scale", verbs: partVerbs })]
        : []),
      ...(plural === "pods"
        ? [part("pods/eviction", { group: "policy", version: "v1", kind: "Eviction", verbs: ["create"] })]
        : []),
    ];
  });
  return { kind: "APIResourceList", apiVersion: "v1", groupVersion, resources };
}

const objectVerbs = ["create", "delete", "get", "list", "patch", "watch"];
const partVerbs = ["get", "patch"];

function groupDocument(name: string, served: readonly Traits[]): object | undefined {
  const ours = served.filter(({ group }) => group === name && group !== "");
  const versions = [...new Set(ours.map(({ apiVersion }) => apiVersion))]
    .map((groupVersion) => ({ groupVersion, version: groupVersion.slice(groupVersion.indexOf("/") + 1) }))
    .toSorted((a, b) => compareRanks(rankOf(b.version), rankOf(a.version)));
  const [preferredVersion] = versions;
  return preferredVersion && { kind: "APIGroup", apiVersion: "v1", name, versions, preferredVersion };
}

/** v2 ranks above v1, v1 above v1beta2, and v1beta2 above v1alpha3: generally available versions come first. */
function rankOf(version: string): readonly number[] {
  const [, major = "0", stage, minor = "0"] = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(version) ?? [];
  return [stage === undefined ? 2 : stage === "beta" ? 1 : 0, Number(major), Number(minor)];
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  const differing = a.findIndex((rank, index) => rank !== b[index]);
  return differing < 0 ? 0 : (a[differing] ?? 0) - (b[differing] ?? 0);
}
