package examples_test

type (
	targetRef struct {
		Group string `yaml:"group"`
		Kind  string `yaml:"kind"`
		Name  string `yaml:"name"`
	}
	connection struct {
		BufferLimit string `yaml:"bufferLimit"`
	}

	httpRoute struct {
		ParentRefs []struct {
			Name string `yaml:"name"`
		} `yaml:"parentRefs"`
		Rules []struct {
			Matches []struct {
				Path struct {
					Type  string `yaml:"type"`
					Value string `yaml:"value"`
				} `yaml:"path"`
			} `yaml:"matches"`
			Timeouts struct {
				Request string `yaml:"request"`
			} `yaml:"timeouts"`
			BackendRefs []targetRef `yaml:"backendRefs"`
		} `yaml:"rules"`
	}

	// extensionPolicy is api/v1alpha1 of Envoy Gateway 1.9, as far as it is used.
	extensionPolicy struct {
		TargetRefs []targetRef `yaml:"targetRefs"`
		ExtProc    []struct {
			BackendRefs []struct {
				Name string `yaml:"name"`
				Port int    `yaml:"port"`
			} `yaml:"backendRefs"`
			BackendSettings struct {
				Connection     connection `yaml:"connection"`
				CircuitBreaker struct {
					MaxConnections      int `yaml:"maxConnections"`
					MaxPendingRequests  int `yaml:"maxPendingRequests"`
					MaxParallelRequests int `yaml:"maxParallelRequests"`
				} `yaml:"circuitBreaker"`
			} `yaml:"backendSettings"`
			MessageTimeout string `yaml:"messageTimeout"`
			FailOpen       bool   `yaml:"failOpen"`
			ProcessingMode struct {
				Request struct {
					Body       string   `yaml:"body"`
					Attributes []string `yaml:"attributes"`
				} `yaml:"request"`
				Response *struct { // headers come where it is there
					Body string `yaml:"body"`
				} `yaml:"response"`
				AllowModeOverride bool `yaml:"allowModeOverride"`
			} `yaml:"processingMode"`
			Metadata struct {
				AccessibleNamespaces []string `yaml:"accessibleNamespaces"`
				WritableNamespaces   []string `yaml:"writableNamespaces"`
			} `yaml:"metadata"`
		} `yaml:"extProc"`
	}

	clientTrafficPolicy struct {
		TargetRefs []targetRef `yaml:"targetRefs"`
		Connection connection  `yaml:"connection"`
	}

	patchPolicy struct {
		TargetRef   targetRef `yaml:"targetRef"`
		Type        string    `yaml:"type"`
		JSONPatches []struct {
			Type      string `yaml:"type"`
			Name      string `yaml:"name"`
			Operation struct {
				Op       string `yaml:"op"`
				JSONPath string `yaml:"jsonPath"`
				Path     string `yaml:"path"`
				Value    any    `yaml:"value"`
			} `yaml:"operation"`
		} `yaml:"jsonPatches"`
	}

	virtualService struct {
		Hosts    []string `yaml:"hosts"`
		Gateways []string `yaml:"gateways"`
		HTTP     []struct {
			Name  string `yaml:"name"`
			Match []struct {
				URI struct {
					Prefix string `yaml:"prefix"`
				} `yaml:"uri"`
			} `yaml:"match"`
			Timeout string `yaml:"timeout"`
			Route   []struct {
				Destination struct {
					Host string `yaml:"host"`
					Port struct {
						Number int `yaml:"number"`
					} `yaml:"port"`
				} `yaml:"destination"`
			} `yaml:"route"`
		} `yaml:"http"`
	}

	destinationRule struct {
		Host          string `yaml:"host"`
		TrafficPolicy struct {
			ConnectionPool struct {
				TCP struct {
					MaxConnections int `yaml:"maxConnections"`
				} `yaml:"tcp"`
				HTTP struct {
					HTTP1MaxPendingRequests int `yaml:"http1MaxPendingRequests"`
					HTTP2MaxRequests        int `yaml:"http2MaxRequests"`
				} `yaml:"http"`
			} `yaml:"connectionPool"`
		} `yaml:"trafficPolicy"`
	}

	envoyFilter struct {
		WorkloadSelector struct {
			Labels map[string]string `yaml:"labels"`
		} `yaml:"workloadSelector"`
		ConfigPatches []struct {
			ApplyTo string `yaml:"applyTo"`
			Match   struct {
				Context  string `yaml:"context"`
				Listener struct {
					FilterChain struct {
						Filter struct {
							Name      string `yaml:"name"`
							SubFilter struct {
								Name string `yaml:"name"`
							} `yaml:"subFilter"`
						} `yaml:"filter"`
					} `yaml:"filterChain"`
				} `yaml:"listener"`
				RouteConfiguration struct {
					VHost struct {
						Route struct {
							Name string `yaml:"name"`
						} `yaml:"route"`
					} `yaml:"vhost"`
				} `yaml:"routeConfiguration"`
			} `yaml:"match"`
			Patch struct {
				Operation string `yaml:"operation"`
				Value     any    `yaml:"value"`
			} `yaml:"patch"`
		} `yaml:"configPatches"`
	}
)
