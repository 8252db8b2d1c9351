/** Names as Kubernetes defines them. No other text reaches a URL. */

/** The most characters that the API server gives the name of any object. */
export const longestObjectName = 253;
const labelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;

/** A DNS-1123 label: what a namespace may be called. */
export function isNamespaceName(text: string): boolean {
  return text.length <= 63 && labelPattern.test(text);
}

/** A DNS-1123 subdomain: what a pod or a StatefulSet may be called. */
export function isObjectName(text: string): boolean {
  return text.length <= longestObjectName && text.split(".").every((part) => labelPattern.test(part));
}
