/**
 * The objects of each type, as plain JSON of the API server. Only the fields that decisions read are typed here. All others stay
 * untouched, and no object is ever written back whole, because typed models drop unknown fields.
 */

import type { Condition, Metadata, OwnerReference } from "./metadata.ts";

export type { Condition, Metadata, OwnerReference };

export interface PodObject {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly volumes?: readonly { readonly persistentVolumeClaim?: { readonly claimName?: string } }[];
    readonly containers?: readonly Container[];
    readonly initContainers?: readonly Container[];
    /** Absent: the pod is not bound to a node yet. */
    readonly nodeName?: string;
    readonly tolerations?: readonly Toleration[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly startTime?: string;
    readonly podIP?: string;
    /** Only `Ready` in a list. */
    readonly conditions?: readonly Condition[];
    readonly containerStatuses?: readonly ContainerStatus[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
  };
}

/** What is read of a container in a pod's specification. */
export interface Container {
  readonly image?: string;
  /** Absent in a list. `value`: absent where it comes from another object. */
  readonly env?: readonly { readonly name?: string; readonly value?: string }[];
}

/** Which taints of its node a pod tolerates. */
export interface Toleration {
  /** Absent or empty: every key. */
  readonly key?: string;
  /** `Equal` or `Exists`; absent: `Equal`. */
  readonly operator?: string;
  readonly value?: string;
  /** Absent or empty: every effect. */
  readonly effect?: string;
  /** Seconds for which the pod stays on a node with a NoExecute taint; absent: for ever. */
  readonly tolerationSeconds?: number;
}

export interface ContainerStatus {
  readonly name?: string;
  /** Such as `containerd://0123…`: a container that is started anew has another one. */
  readonly containerID?: string;
  readonly ready?: boolean;
  readonly restartCount?: number;
  readonly state?: {
    readonly running?: object;
    readonly waiting?: { readonly reason?: string };
    readonly terminated?: object;
  };
}

/** What a template says of a container's command, and of what Kubernetes does with the container. */
export interface TemplateContainer {
  readonly name: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string }[];
  readonly lifecycle?: { readonly preStop?: unknown };
  readonly livenessProbe?: { readonly exec?: { readonly command?: readonly string[] } };
}

export interface StatefulSetObject {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly podManagementPolicy?: string;
    readonly ordinals?: { readonly start?: number };
    readonly serviceName?: string;
    readonly updateStrategy?: { readonly type?: string };
    readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
    readonly volumeClaimTemplates?: readonly { readonly metadata?: { readonly name?: string } }[];
    readonly persistentVolumeClaimRetentionPolicy?: { readonly whenScaled?: string; readonly whenDeleted?: string };
    readonly template?: {
      readonly metadata?: { readonly labels?: Readonly<Record<string, string>> };
      readonly spec?: {
        readonly terminationGracePeriodSeconds?: number;
        readonly containers?: readonly TemplateContainer[];
      };
    };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
  };
}

export interface LeaseObject {
  readonly metadata: Metadata;
}

export interface EventObject {
  readonly metadata: Metadata;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTimestamp?: string;
  readonly involvedObject?: { readonly kind?: string; readonly name?: string };
  readonly source?: { readonly component?: string };
}

/** A ZoneAwarePodDisruptionBudget. Its spec may be anything: `zone-budget.ts` parses it. */
export interface ZoneBudgetObject {
  readonly kind?: string;
  readonly metadata: Metadata;
  readonly spec?: unknown;
}

export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values?: readonly string[];
  }[];
}

export interface PodDisruptionBudgetObject {
  readonly metadata: Metadata;
  readonly spec?: {
    /** Absent selects nothing; an empty one every pod of the namespace. */
    readonly selector?: LabelSelector;
    readonly unhealthyPodEvictionPolicy?: string;
    /** A number, or a share such as `50%`. */
    readonly minAvailable?: number | string;
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly disruptionsAllowed?: number;
    readonly currentHealthy?: number;
    readonly desiredHealthy?: number;
    readonly expectedPods?: number;
  };
}

export interface SecretObject {
  readonly metadata: Metadata;
  readonly type?: string;
  /** True: the API server refuses every change of its values. */
  readonly immutable?: boolean;
  /** Values in base64. */
  readonly data?: Readonly<Record<string, string>>;
}

/** Where the API server sends reviews: `clientConfig`. */
export interface WebhookClient {
  readonly url?: string;
  readonly service?: {
    readonly namespace: string;
    readonly name: string;
    readonly path?: string;
    readonly port?: number;
  };
  /** PEM in base64. */
  readonly caBundle?: string;
}

/** A MutatingWebhookConfiguration or ValidatingWebhookConfiguration: cluster-scoped, so that its key has no namespace. */
export interface WebhookConfigurationObject {
  readonly metadata: Metadata;
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly timeoutSeconds?: number;
    readonly clientConfig: WebhookClient;
    readonly rules?: readonly {
      readonly apiGroups?: readonly string[];
      readonly apiVersions?: readonly string[];
      readonly operations?: readonly string[];
      readonly resources?: readonly string[];
    }[];
  }[];
}

export interface ConfigMapObject {
  readonly metadata: Metadata;
  readonly data?: Readonly<Record<string, string>>;
}

/** A Deployment or a ReplicaSet: how many pods are wanted, and how many there are. */
export interface ScaledObject {
  readonly metadata: Metadata;
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly observedGeneration?: number; readonly replicas?: number };
}

/** A PersistentVolumeClaim. */
export interface PvcObject {
  readonly metadata: Metadata;
  /** `volumeName`: of the PersistentVolume, once there is one. */
  readonly spec?: { readonly volumeName?: string };
  readonly status?: {
    readonly phase?: string;
    readonly capacity?: { readonly storage?: string };
    readonly conditions?: readonly Condition[];
  };
}

/** A PersistentVolume: cluster-scoped. */
export interface VolumeObject {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly claimRef?: { readonly namespace?: string; readonly name?: string; readonly uid?: string };
    readonly persistentVolumeReclaimPolicy?: string;
  };
  readonly status?: { readonly phase?: string };
}

/** Cluster-scoped, like a Namespace. */
export interface NodeObject {
  readonly metadata: Metadata;
  readonly spec?: {
    readonly unschedulable?: boolean;
    readonly podCIDR?: string;
    readonly podCIDRs?: readonly string[];
    readonly providerID?: string;
    readonly taints?: readonly { readonly key: string; readonly value?: string; readonly effect: string }[];
  };
  readonly status?: {
    readonly conditions?: readonly Condition[];
    /** `bootID`: of the kernel, new after each boot. `systemUUID`: of the machine. */
    readonly nodeInfo?: { readonly bootID?: string; readonly systemUUID?: string };
  };
}

/** That a volume is to be attached to a node, or is: cluster-scoped. */
export interface VolumeAttachmentObject {
  readonly metadata: Metadata;
  readonly spec?: { readonly nodeName?: string };
}

export interface NamespaceObject {
  readonly metadata: Metadata;
  readonly status?: { readonly phase?: string };
}

/** How many replicas an object wants and has, whatever its type: `autoscaling/v1`. Its metadata is the object's own. */
export interface ScaleObject {
  readonly metadata: Metadata;
  /** Without `replicas` where none are wanted. */
  readonly spec?: { readonly replicas?: number };
  readonly status?: { readonly replicas?: number; readonly selector?: string };
}

/** An object of a type without fields of its own here. */
export interface OtherObject {
  readonly kind?: string;
  readonly metadata: Metadata;
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** A type that is not in the table, by the path that the API server serves it under in all namespaces: see `ServedKind`. */
export type DiscoveredResource = `/api${string}`;

/** The objects of each resource type. */
export interface ObjectTypes {
  pods: PodObject;
  statefulsets: StatefulSetObject;
  leases: LeaseObject;
  events: EventObject;
  secrets: SecretObject;
  /** `publishNotReadyAddresses`: absent is false. */
  services: { readonly metadata: Metadata; readonly spec?: { readonly publishNotReadyAddresses?: boolean } };
  poddisruptionbudgets: PodDisruptionBudgetObject;
  zoneawarepoddisruptionbudgets: ZoneBudgetObject;
  mutatingwebhookconfigurations: WebhookConfigurationObject;
  validatingwebhookconfigurations: WebhookConfigurationObject;
  configmaps: ConfigMapObject;
  deployments: ScaledObject;
  replicasets: ScaledObject;
  persistentvolumeclaims: PvcObject;
  persistentvolumes: VolumeObject;
  nodes: NodeObject;
  volumeattachments: VolumeAttachmentObject;
  namespaces: NamespaceObject;
  rabbitmqclusters: OtherObject;
  foundationdbclusters: OtherObject;
  [path: DiscoveredResource]: OtherObject;
}
