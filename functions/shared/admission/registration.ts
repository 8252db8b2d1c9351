/** How the API server is told to ask: what of a webhook configuration is the function's own. */
export interface Registration {
  /** Only a mutating webhook may change what it reviews. */
  readonly kind: "Mutating" | "Validating";
  /** The namespace is written after it. */
  readonly webhook: string;
  /** One of the function's paths. */
  readonly path: string;
  readonly rule: {
    readonly apiGroups: readonly string[];
    readonly apiVersions: readonly string[];
    readonly operations: readonly string[];
    readonly resources: readonly string[];
  };
  readonly sideEffects: "None" | "NoneOnDryRun";
  /** What the API server does where it gets no answer in this time: it refuses, or goes on. */
  readonly failurePolicy: "Fail" | "Ignore";
  readonly timeoutSeconds: number;
  /** CEL expressions; the API server asks nothing about an object for which any of them is false. */
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
}
