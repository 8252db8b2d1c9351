/** The kubeconfig of a test's API server. JSON is also YAML. `authority`: the field that says which authority to trust. */
export function kubeconfigText(server: string, user: object, namespace?: string, authority: object = {}): string {
  const name = "test";
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server, ...authority } }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
    "current-context": name,
  });
}
