/** The common parts of every rendered manifest: names, labels, and how a process of Sluice is run. */
import type { Need } from "../../functions/shared/contract/definition.ts";
import manifest from "../../package.json" with { type: "json" };

/**
 * A Kubernetes object as it is written to YAML. There are no types of a library for it: a test has the API server itself check
 * every field, which types of another version would not.
 */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    /** Absent: an overlay says which. */
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** The parts of one process: its objects carry its name. */
export interface Workload {
  readonly name: string;
  readonly needs: readonly Need[];
}

/** Overlays name the real namespace, which kustomize writes wherever this one is. It has neither dashes nor dots. */
export const placeholderNamespace = "default";

/**
 * The image of `package.json`. While no registry has it, its name is one that can never have an owner (RFC 6761): the owner of
 * the name of an image could choose what is pulled by it.
 */
export const placeholderImage = manifest.sluice.image;

/** The image of the agents of fencing, which is another target of the same Dockerfile. */
export const placeholderAgentImage = manifest.sluice.agentImage;

/** A placeholder: `images` of a kustomization names the real place. */
export const image = `${placeholderImage}:${manifest.version}`;
/** Likewise. */
export const agentImage = `${placeholderAgentImage}:${manifest.version}`;

const hintOf = (name: string): string =>
  `The image ${name} is a placeholder, and no registry has it: name your own in \`images\` of your kustomization`;

/** The comment about it for readers of the manifests. */
export const placeholderHint = hintOf(placeholderImage);
/** Likewise, about the agents' image. */
export const placeholderAgentHint = hintOf(placeholderAgentImage);

/** Webhook configurations of rollout-operator's users name this Service, so its name stays. */
export const reviewService = "rollout-operator";
export const ports = { plain: 8001, tls: 8443, status: 8002, knative: 8080 } as const;

export { answersReviews } from "../../functions/shared/admission/own-workloads.ts";

export function labelsOf(component: string): Readonly<Record<string, string>> {
  return { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": component };
}

/** The settings that Pod Security's `restricted` requires of a pod. */
export const podSecurityContext = { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } } as const;

/** The value of an environment variable, or the field of its pod that has it. */
export type EnvironmentValue = string | { readonly fieldPath: string };

/** The environment of a container, as its manifest has it. */
export function environmentOf(settings: Readonly<Record<string, EnvironmentValue>>): readonly object[] {
  return Object.entries(settings).map(([name, value]) =>
    typeof value === "string" ? { name, value } : { name, valueFrom: { fieldRef: value } },
  );
}

/** The container of a process, with these settings: as `restricted` requires, and with a root that cannot be written. */
export function containerOf(settings: Readonly<Record<string, EnvironmentValue>>, own: object): object {
  const securityContext = {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
    readOnlyRootFilesystem: true,
    runAsNonRoot: podSecurityContext.runAsNonRoot,
    runAsUser: 65_532,
    seccompProfile: podSecurityContext.seccompProfile,
  };
  return { name: "sluice", image, env: environmentOf(settings), ...own, securityContext };
}
