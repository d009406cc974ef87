"""Install Strongroom in a Hermes home: the policy, the cap and the plugin. Also undoes the installation."""
