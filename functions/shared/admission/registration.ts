/** The function's own part of a webhook configuration. */
export interface Registration {
  /** Only a mutating webhook may change what it reviews. */
  readonly kind: "Mutating" | "Validating";
  /** Name of the webhook, without the namespace that the manifests append. */
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
  /** Whether the API server refuses a request (`Fail`) or allows it (`Ignore`) if it gets no answer in time. */
  readonly failurePolicy: "Fail" | "Ignore";
  readonly timeoutSeconds: number;
  /** CEL expressions; the API server asks nothing about an object for which any of them is false. */
  readonly matchConditions?: readonly { readonly name: string; readonly expression: string }[];
}
