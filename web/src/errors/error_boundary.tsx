import { Component, type ReactNode } from "react";
import { ErrorNotice } from "./error_notice.js";

/** Shows an error of a component instead of an empty page. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
  override state = { error: undefined as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render(): ReactNode {
    if (this.state.error === undefined) return this.props.children;
    return <ErrorNotice error={this.state.error} actions={{ retry: () => this.setState({ error: undefined }) }} />;
  }
}
