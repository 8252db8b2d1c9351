/** What objects of all types have alike. */

export interface OwnerReference {
  readonly apiVersion?: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
}

export interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
  /** Which client last wrote which field, and when. */
  readonly managedFields?: unknown;
  /** Finalizers, which clients must remove before the object is removed. */
  readonly finalizers?: readonly string[];
}

export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly lastTransitionTime?: string;
}
