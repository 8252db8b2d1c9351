/** What can be asked whether a pod may go, as far as a user writes of it: a row for each product. */

export interface ProductTraits {
  /** Where its pods answer, unless a user says otherwise; absent: the user must say. */
  readonly url?: { readonly scheme: "http" | "https"; readonly port: number; readonly path: string };
  /** True for one that answers no request without a password. */
  readonly needsSecret: boolean;
  /** True where a user may say which field of the answer says yes. */
  readonly takesField: boolean;
}

const table = {
  rabbitmq: {
    url: { scheme: "http", port: 15_672, path: "/api/health/checks/node-is-quorum-critical" },
    needsSecret: true,
    takesField: false,
  },
  http: { needsSecret: false, takesField: true },
} as const satisfies Readonly<Record<string, ProductTraits>>;

export type ProductName = keyof typeof table;
export const productTraits: Readonly<Record<ProductName, ProductTraits>> = table;
export const productNames = Object.keys(table) as readonly ProductName[];

export function isProduct(text: string): text is ProductName {
  return Object.hasOwn(table, text);
}
