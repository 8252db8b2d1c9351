/** Who may reach a pod by the NetworkPolicies that there are, as Kubernetes defines them: what nothing here would enforce. */
import { BlockList } from "node:net";
import type { Built } from "../support/kubectl.ts";

type Labels = Readonly<Record<string, string>>;

interface Selector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: "In"; readonly values: string[] }[];
}

interface Peer {
  readonly podSelector?: Selector;
  readonly namespaceSelector?: Selector;
  readonly ipBlock?: { readonly cidr: string };
}

export interface Policy extends Built {
  readonly spec: {
    readonly podSelector: Selector;
    readonly policyTypes: readonly string[];
    readonly ingress: readonly {
      readonly ports?: readonly { readonly port: string }[];
      readonly from?: readonly Peer[];
    }[];
  };
}

/** A pod of a namespace, or an address that no pod has. */
export type Caller = { readonly namespace: string } | { readonly address: string };

export function isPolicy(object: Built): object is Policy {
  return object.kind === "NetworkPolicy";
}

function selects({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels): boolean {
  const hasLabels = Object.entries(matchLabels).every(([key, value]) => labels[key] === value);
  return hasLabels && matchExpressions.every(({ key, values }) => values.includes(labels[key] ?? ""));
}

function isPeer({ podSelector, namespaceSelector, ipBlock }: Peer, caller: Caller, own: string): boolean {
  if ("address" in caller) {
    const [address = "", prefix] = ipBlock?.cidr.split("/") ?? [];
    const block = new BlockList();
    if (ipBlock !== undefined) block.addSubnet(address, Number(prefix));
    return block.check(caller.address);
  }
  if (podSelector !== undefined && !selects(podSelector, {})) return false;
  if (namespaceSelector === undefined) return podSelector !== undefined && caller.namespace === own;
  return selects(namespaceSelector, { "kubernetes.io/metadata.name": caller.namespace });
}

/** Whether a caller gets to a port of a pod, which is called by its name. */
export function admits(policies: readonly Policy[], labels: Labels, port: string, caller: Caller): boolean {
  const holding = policies.filter(
    ({ spec }) => spec.policyTypes.includes("Ingress") && selects(spec.podSelector, labels),
  );
  if (holding.length === 0) return true;
  return holding.some(({ metadata, spec }) =>
    spec.ingress.some(
      ({ ports, from }) =>
        (ports?.some((one) => one.port === port) ?? true) &&
        (from?.some((peer) => isPeer(peer, caller, metadata.namespace ?? "")) ?? true),
    ),
  );
}
